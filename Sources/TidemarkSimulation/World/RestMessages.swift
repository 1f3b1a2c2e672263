import Foundation
import TidemarkCore
import TidemarkEngine

/// A request over REST, as it travels.
struct RestRequest: Sendable {
    let method: String
    /// The path beneath the zone's.
    let path: String
    var query: [(name: String, value: String)] = []
    var headers: [String: String] = [:]
    var body: String?

    /// Whether it writes.
    var isWrite: Bool { method != "GET" }

    /// The request in one line, for the trace.
    var text: String {
        let query = self.query.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        let headers = self.headers.sorted { $0.key < $1.key }.map { " \($0.key): \($0.value)" }.joined()
        return "\(method) \(path)\(query.isEmpty ? "" : "?" + query)\(headers) \(body ?? "")"
    }
}

/// An answer over REST, as it travels.
struct RestAnswer: Sendable {
    /// The kinds of statuses.
    enum Kind { case done, unchanged, problem }

    var kind = Kind.done
    var entityTag: String?
    var location: String?
    var body: String?

    /// The answer in one line, for the trace.
    var text: String { "\(kind) \(entityTag ?? "") \(location ?? "") \(body ?? "")" }
}

/// The routes of the REST interface around its core, as `TidemarkServer` has them in the product.
enum RestRoutes {
    /// Answers a question from a read transaction.
    static func answer(_ request: RestRequest, _ reader: any ZoneReader) throws -> RestAnswer {
        let items = request.query.map { ListQuery.Item(name: $0.name, value: $0.value) }
        let parts = request.path.split(separator: "/").map(String.init)
        guard parts.first == "tables" else {
            let query = try FeedQuery(items, schema: reader.schema)
            let start = try reader.feedPosition(since: query.since)
            return RestAnswer(body: try ReadChanges(query, reader).page(after: start).json)
        }
        let records = ListRecords(reader)
        let table = try reader.schema.table(parts[1])
        let known = request.headers["If-None-Match"]
        let answer: ListRecords.Answer
        if parts.count == 2 {
            answer = try records.page(items, of: table, unlike: known)
        } else {
            let key = try RecordPath.key(parts[2], of: table) { $0.removingPercentEncoding }
            answer = try records.record(key, in: table, selecting: items, unlike: known)
        }
        let kind = answer.json == nil ? RestAnswer.Kind.unchanged : .done
        return RestAnswer(kind: kind, entityTag: answer.entityTag, body: answer.json)
    }

    /// Reads a request to write.
    static func writes(of request: RestRequest) throws -> ClientWrites {
        ClientWrites(
            id: request.headers["Idempotency-Key"] ?? "", requests: try requests(of: request),
            seen: request.headers["Tidemark-Seen"].flatMap { Int64($0) },
            isMinimal: request.headers["Prefer"] == "return=minimal")
    }

    private static func requests(of request: RestRequest) throws -> [WriteRequest] {
        let body = try request.body.map { try WriteRequest.json(of: Array($0.utf8)) }
        guard request.path != "batch" else { return try WriteBatch(body ?? []).requests.map { try $0.get() } }
        let parts = request.path.split(separator: "/").map(String.init)
        guard let method = WriteRequest.Method(rawValue: request.method) else { return [] }
        return [
            WriteRequest(
                method: method, table: parts[1], key: parts.count > 2 ? parts[2] : nil,
                body: body.map { String(decoding: $0, as: UTF8.self) },
                precondition: try Precondition(
                    ifMatch: request.headers["If-Match"], ifNoneMatch: request.headers["If-None-Match"], of: method))
        ]
    }

    /// Renders the answers to writes that are done.
    static func answer(_ request: RestRequest, _ answers: [WriteAnswer]) -> RestAnswer {
        guard request.path != "batch", let answer = answers.first else {
            return RestAnswer(body: #"{"responses":[\#(answers.map(\.json).joined(separator: ","))]}"#)
        }
        let location = answer.operation == .create ? answer.location : nil
        return RestAnswer(entityTag: answer.entityTag, location: location, body: answer.record)
    }

    /// Renders the refusal of a request.
    ///
    /// - Throws: The error, if it is no refusal.
    static func answer(_ request: RestRequest, refusedBy error: any Error) throws -> RestAnswer {
        guard var problem = Problem(refusal: error, index: nil) else { throw error }
        if request.path != "batch" { problem.index = nil }
        return RestAnswer(kind: .problem, body: problem.json(status: 400))
    }
}
