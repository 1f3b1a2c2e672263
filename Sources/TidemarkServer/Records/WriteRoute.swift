internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `POST /tables/{table}`, and `PATCH`, `PUT` and `DELETE /tables/{table}/{key}`: writes of clients without rows.
struct WriteRoute: Sendable {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory

    /// Answers one write.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        guard let method = WriteRequest.Method(rawValue: request.method.rawValue) else { throw HTTPError(.notFound) }
        let headers = try await WriteHeaders.read(request, of: method)
        let share = memory.share()
        let write = try await write(request, context, method: method, precondition: headers.precondition, share: share)
        do {
            let answers = try await service.write(headers.writes([write], id: headers.id ?? Self.newID()), access)
            return try await response(answers[0], to: request, context, applied: headers.preferences, share: share)
        } catch var problem as Problem {
            problem.index = nil
            throw problem
        }
    }

    /// A random id for the change set of a client that names none.
    static func newID() -> String { UUID().uuidString.lowercased() }

    /// Reads the write; the body is released when this returns.
    private func write(
        _ request: Request,
        _ context: ServerRequestContext,
        method: WriteRequest.Method,
        precondition: Precondition,
        share: MemoryShare
    ) async throws -> WriteRequest {
        var json: String?
        if method != .delete {
            let body = try await bodyReader.read(request, on: context.channel, share: share)
            json = String(decoding: try WriteRequest.json(of: body), as: UTF8.self)
        }
        return WriteRequest(
            method: method,
            table: try context.name("table"),
            key: context.parameters.get("key"),
            body: json,
            precondition: precondition
        )
    }

    private func response(
        _ answer: WriteAnswer,
        to request: Request,
        _ context: ServerRequestContext,
        applied preferences: Preferences,
        share: MemoryShare
    ) async throws -> Response {
        let status = HTTPResponse.Status(code: answer.status)
        var response: Response
        if let record = answer.record {
            response = try await JSONAnswer.response(
                Array(record.utf8),
                status: status,
                to: request.headers,
                share: share
            )
        } else {
            response = Response(status: status, headers: [.cacheControl: "no-store"])
        }
        response.headers[.eTag] = answer.entityTag
        response.headers[.preferenceApplied] = preferences.applied
        if answer.operation == .create {
            let zone = context.parameters.get("zone").map { "/zones/\($0)" } ?? ""
            response.headers[.location] = "\(zone)/\(answer.location)"
        }
        return response
    }
}

extension WriteHeaders {
    /// Returns writes with what the headers say about them.
    func writes(_ requests: [WriteRequest], id: String) -> ClientWrites {
        ClientWrites(id: id, requests: requests, seen: seen, isMinimal: preferences.isMinimal)
    }

    /// Reads the headers of a request whose body the server has not begun to read.
    static func read(_ request: Request, of method: WriteRequest.Method) async throws -> WriteHeaders {
        do throws(TidemarkError) { return try WriteHeaders(request.headers, of: method) } catch {
            var refusal = Refusal(error)
            refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
            throw refusal
        }
    }
}
