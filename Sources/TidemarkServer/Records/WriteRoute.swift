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
        _ request: Request, _ context: ServerRequestContext, method: WriteRequest.Method, precondition: Precondition,
        share: MemoryShare
    ) async throws -> WriteRequest {
        var json: String?
        if method != .delete {
            let body = try await bodyReader.read(request, on: context.channel, share: share)
            json = String(decoding: try WriteRequest.json(of: body), as: UTF8.self)
        }
        return WriteRequest(
            method: method, table: try context.name("table"), key: context.parameters.get("key"), body: json,
            precondition: precondition)
    }

    private func response(
        _ answer: WriteAnswer, to request: Request, _ context: ServerRequestContext, applied preferences: Preferences,
        share: MemoryShare
    ) async throws -> Response {
        let status = HTTPResponse.Status(code: answer.status)
        var response: Response
        if let record = answer.record {
            response = try await JSONAnswer.response(
                Array(record.utf8), status: status, to: request.headers, share: share)
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
            throw try await Refusal(error).droppingBody(of: request)
        }
    }
}

struct WriteHeaders: Hashable, Sendable {
    /// The state that the client has seen.
    let precondition: Precondition
    /// The id of the change set, in lower case; nil if the client names none.
    let id: String?
    /// The revision up to which the client has seen the whole zone.
    let seen: Int64?
    let preferences: Preferences

    /// Reads the headers; a batch counts as `post`; throws for a header that the server does not understand.
    init(_ headers: HTTPFields, of method: WriteRequest.Method) throws(TidemarkError) {
        try MediaTypes.check(headers, hasBody: method != .delete)
        preferences = try Preferences(headers[.prefer])
        precondition = try Precondition(ifMatch: headers[.ifMatch], ifNoneMatch: headers[.ifNoneMatch], of: method)
        id = try headers[.idempotencyKey].map { text throws(TidemarkError) in try Self.id(text) }
        seen = try headers[.tidemarkSeen].map { text throws(TidemarkError) in try Self.revision(text) }
    }

    private static func id(_ text: String) throws(TidemarkError) -> String {
        guard let id = UUID(uuidString: text.filter { $0 != "\"" }) else {
            throw TidemarkError(
                .invalidArgument, "Idempotency-Key is no UUID.",
                fix: "Send 128 new random bits as a UUID, and the same ones when you repeat the request.")
        }
        return id.uuidString.lowercased()
    }

    private static func revision(_ text: String) throws(TidemarkError) -> Int64 {
        guard let revision = Int64(text), revision >= 0 else {
            throw TidemarkError(
                .invalidArgument, "Tidemark-Seen is no revision.",
                fix: "Send the revision of an answer about the whole zone, or leave the header out.")
        }
        return revision
    }
}

extension HTTPField.Name {
    static let prefer = customName("Prefer")
    static let preferenceApplied = customName("Preference-Applied")
    static let idempotencyKey = customName("Idempotency-Key")
    static let tidemarkSeen = customName("Tidemark-Seen")
}

/// The header `Prefer` of a write (RFC 7240).
struct Preferences: Hashable, Sendable {
    /// Whether the client wants no record in the answer.
    private(set) var isMinimal = false
    /// The preferences that the server follows, as in `Preference-Applied`; nil if there are none.
    private(set) var applied: String?

    /// Reads the header; throws `invalidArgument` for an unknown preference without `handling=lenient`.
    init(_ header: String?) throws(TidemarkError) {
        let parts = (header ?? "").split(separator: ",").map { part in
            String(part.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\"" }).lowercased()
        }
        let known = parts.filter(Self.known.contains)
        guard known.count == parts.count || parts.contains("handling=lenient") else {
            throw TidemarkError(
                .invalidArgument, "Prefer has a preference that this server does not know.",
                fix: "It knows return=minimal, return=representation, handling=strict and handling=lenient.")
        }
        // The first one counts, as RFC 7240 says.
        isMinimal = known.first { $0.hasPrefix("return=") } == "return=minimal"
        applied = known.isEmpty ? nil : known.joined(separator: ", ")
    }

    private static let known: Set<String> = [
        "return=minimal", "return=representation", "handling=strict", "handling=lenient",
    ]
}

/// The media types of the requests and answers of clients without rows.
enum MediaTypes {
    private static let bodies: Set<String> = ["application/json", "application/merge-patch+json"]
    private static let answers: Set<String> = ["*/*", "application/*", "application/json", "application/problem+json"]

    /// Checks `Accept`, and `Content-Type` of a body; throws `notAcceptable` or `unsupportedMediaType`.
    ///
    /// `null` is NULL and a missing member stays, so both types of bodies mean the same. A request need name none.
    static func check(_ headers: HTTPFields, hasBody: Bool) throws(TidemarkError) {
        guard accepts(headers[.accept]) else {
            throw TidemarkError(
                .notAcceptable, "The server answers in JSON, which Accept excludes.",
                fix: "Send Accept: application/json, or leave it out.")
        }
        guard hasBody, let type = headers[.contentType].map(essence), !bodies.contains(type) else { return }
        throw TidemarkError(
            .unsupportedMediaType, "The server cannot read a body of this media type.",
            fix: "Send Content-Type: application/json; with curl, add -H 'Content-Type: application/json'.")
    }

    private static func accepts(_ header: String?) -> Bool {
        guard let header, !header.isEmpty else { return true }
        return header.split(separator: ",").contains { part in
            answers.contains(essence(part)) && !part.filter { $0 != " " }.lowercased().hasSuffix(";q=0")
        }
    }

    /// Returns a media type without its parameters.
    private static func essence(_ type: some StringProtocol) -> String {
        String(type.prefix { $0 != ";" }).filter { $0 != " " && $0 != "\t" }.lowercased()
    }
}

extension ServerRequestContext {
    /// Returns a name in the request's path; throws `malformedRequest` if it is no percent-encoded UTF-8.
    func name(_ parameter: String) throws(TidemarkError) -> String {
        guard let text = parameters.get(parameter)?.removingPercentEncoding, !text.utf8.contains(0) else {
            throw TidemarkError(
                .malformedRequest, "The name in the path is not valid percent-encoded UTF-8.",
                fix: "Percent-encode the name.")
        }
        return text
    }
}
