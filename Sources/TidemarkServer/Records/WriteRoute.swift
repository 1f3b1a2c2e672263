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
        let offer = OfferWrites(service: service, isMinimal: headers.preferences.isMinimal, seen: headers.seen)
        do {
            let answers = try await offer.answers(to: [write], id: headers.id ?? Self.newID(), access)
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
    /// Reads the headers of a request whose body the server has not begun to read.
    static func read(_ request: Request, of method: WriteRequest.Method) async throws -> WriteHeaders {
        do throws(TidemarkError) { return try WriteHeaders(request.headers, of: method) } catch {
            var refusal = Refusal(error)
            refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
            throw refusal
        }
    }
}

/// Offers writes to the store as a change set, and reads the verdict.
///
/// The shell around ``TidemarkEngine/PlanWrites`` and ``TidemarkEngine/AnswerWrites``. Between the two stands the same
/// commit as for devices.
struct OfferWrites: Sendable {
    let service: any SyncService
    /// Whether the answers have no records.
    let isMinimal: Bool
    /// The revision up to which the client has seen the whole zone.
    let seen: Int64?

    /// Returns the answers to writes that stand or fall together, in their order.
    ///
    /// - Throws: ``TidemarkEngine/Problem`` if they are refused; then nothing was done.
    func answers(to requests: [WriteRequest], id: String, _ access: ZoneAccess) async throws -> [WriteAnswer] {
        let (changeSet, verdict) = try await judged(requests, id: id, access)
        if isMinimal, case .committed(let revision, _) = verdict {
            let state = try await service.read(access, ZoneQuestion(isPartOfWrite: true) { try $0.tag(of: revision) })
            return try AnswerWrites(changeSet, committed: state).answers(verdict)
        }
        return try await service.read(
            access,
            ZoneQuestion(isPartOfWrite: true) { try AnswerWrites(changeSet, $0).answers(verdict) }
        )
    }

    /// Returns the change set of the writes, and its verdict.
    ///
    /// Where the zone has begun a new history meanwhile, for instance because a program made a table again, the writes
    /// are planned anew: their tags are judged in the history that the zone has now.
    private func judged(_ requests: [WriteRequest], id: String, _ access: ZoneAccess) async throws -> (
        RecordChangeSet, WriteVerdict
    ) {
        let seen = seen
        var attempt = 1
        while true {
            let changeSet = try await service.read(
                access,
                ZoneQuestion(isPartOfWrite: true) { try PlanWrites($0).changeSet(of: requests, id: id, seen: seen) }
            )
            do { return (changeSet, try await verdict(on: changeSet, access)) } catch let problem as Problem
                where problem.error.code == .epochMismatch && attempt < Self.attemptsMax
            { attempt += 1 }
        }
    }

    /// How often writes are planned in a new history.
    private static let attemptsMax = 5

    private func verdict(on changeSet: RecordChangeSet, _ access: ZoneAccess) async throws -> WriteVerdict {
        do { return try await service.write(changeSet, access) } catch let error as TidemarkError {
            throw changeSet.problem(error)
        }
    }
}
