internal import AsyncHTTPClient
internal import Foundation
internal import GRDB
internal import NIOCore
internal import NIOHTTP1
internal import Tidemark
internal import TidemarkGzip

/// An answer of the server, and everything that it has to say.
struct SecrecyReply {
    /// The status.
    let status: Int
    /// The headers, sorted by name, without the time and the connection.
    let headers: [(name: String, value: String)]
    /// The body, decoded if it arrived compressed.
    let body: [UInt8]
    /// The rows of the body's tables, if it is a snapshot.
    let rows: [String]
    /// Status, headers, body and the content of the body unpacked, with a snapshot's pages and rows.
    let everything: [UInt8]

    /// A header; nil if it is not there.
    func header(_ name: String) -> String? { headers.first { $0.name == name.lowercased() }?.value }

    /// The body as text.
    var text: String { String(decoding: body, as: UTF8.self) }

    /// The members of a body that is a JSON object; empty for another one.
    var object: [String: Any] {
        // A body of another form is compared as bytes.
        let object = try? JSONSerialization.jsonObject(with: Data(body))
        return object as? [String: Any] ?? [:]
    }

    /// The objects of an array in the body.
    func list(_ name: String) -> [[String: Any]] { object[name] as? [[String: Any]] ?? [] }
}

/// Sends requests and unpacks the answers.
struct SecrecyClient: Sendable {
    let port: Int

    /// A client that neither compresses nor decompresses on its own; it lasts as long as the process.
    private static let http = HTTPClient(
        eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: .init(redirectConfiguration: .disallow))
    /// The most bytes of an unpacked answer.
    private static let bytesMax = 64 << 20

    /// Sends one request.
    func send(_ method: String, _ path: String, headers: [(String, String)], body: String?) async throws -> SecrecyReply
    {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = HTTPMethod(rawValue: method)
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await Self.http.execute(request, timeout: .seconds(120))
        let content = Array(try await response.body.collect(upTo: Self.bytesMax).readableBytesView)
        let headers = response.headers.map { (name: $0.name.lowercased(), value: $0.value) }
            .filter { !["date", "connection"].contains($0.name) }.sorted { $0 < $1 }
        var everything = Array(("\(response.status)\n" + headers.map { "\($0.name): \($0.value)\n" }.joined()).utf8)
        everything += content
        var body = content
        if headers.contains(where: { $0.name == "content-encoding" }) {
            body = try gunzip(content, bytesMax: Self.bytesMax)
            everything += body
        }
        var rows: [String] = []
        if body.starts(with: [0x1F, 0x8B]), Self.isWhole(headers) {
            let unpacked = try gunzip(body, bytesMax: Self.bytesMax)
            everything += unpacked
            if unpacked.starts(with: "SQLite format 3".utf8) { rows = try await Self.rows(of: unpacked) }
            everything += rows.joined(separator: "\n").utf8
        }
        return SecrecyReply(
            status: Int(response.status.code), headers: headers, body: body, rows: rows, everything: everything)
    }

    /// Opens a stream of events; its lines arrive in `SecrecyListener`.
    func listen(_ path: String, token: String?) async throws -> SecrecyListener? {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.headers.add(name: "Accept", value: "text/event-stream")
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        let response = try await Self.http.execute(request, timeout: .hours(1))
        guard response.status == .ok else { return nil }
        return SecrecyListener(response.body)
    }

    /// Whether the body is a whole file: it has no `Content-Range`, or one that leaves nothing out.
    private static func isWhole(_ headers: [(name: String, value: String)]) -> Bool {
        guard let range = headers.first(where: { $0.name == "content-range" })?.value else { return true }
        guard let match = range.wholeMatch(of: /bytes 0-(\d+)\/(\d+)/), let last = Int(match.output.1),
            let count = Int(match.output.2)
        else { return false }
        return last + 1 == count
    }

    /// Reads every row of every table of a SQLite file.
    private static func rows(of file: [UInt8]) async throws -> [String] {
        let path = FileManager.default.temporaryDirectory.appending(
            path: "tidemark-\(SyncEngine.Environment.system.newID()).sqlite")
        try Data(file).write(to: path)
        let database = try DatabaseQueue(path: path.path)
        let rows = try await database.read { db in
            let tables = try String.fetchAll(
                db, sql: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            return try tables.flatMap { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \"\(table)\"").map { row in
                    table + row.databaseValues.map { "|\($0)" }.joined()
                }.sorted()
            }
        }
        try database.close()
        try FileManager.default.removeItem(at: path)
        return rows
    }
}

/// A stream of events that stays open, and its bytes so far.
final class SecrecyListener {
    private var pieces: HTTPClientResponse.Body.AsyncIterator
    /// The bytes that arrived and were not taken yet.
    private var rest: [UInt8] = []

    init(_ body: HTTPClientResponse.Body) { pieces = body.makeAsyncIterator() }

    /// Returns the next event with its lines; nil at the end of the stream.
    ///
    /// A heartbeat is no event.
    func next() async throws -> String? {
        while true {
            if let end = rest.firstRange(of: Array("\n\n".utf8)) {
                let event = String(decoding: rest[..<end.lowerBound], as: UTF8.self)
                rest.removeSubrange(..<end.upperBound)
                if !event.hasPrefix(":") { return event }
                continue
            }
            guard let piece = try await pieces.next(isolation: #isolation) else { return nil }
            rest += piece.readableBytesView
        }
    }
}
