import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TidemarkCore
import TidemarkGzip

/// The requests of one client of the list, with gzip in both directions.
struct DishRequests {
    private let url: String
    /// The most bytes of an answer, decompressed.
    private static let bytesMax = 64 << 20

    init(url: String) { self.url = url }

    /// An answer about rows, by any endpoint.
    struct Answer: Decodable {
        /// A change of the feed.
        struct Change: Decodable {
            let key: String
            let record: Dish?
        }

        var records: [Dish]?
        var changes: [Change]?
        var gone: [String]?
        var differing: [Int]?
        var next: String?
        var since: Int?
        var more: Bool?
        var rows: Int?
        var fingerprint: Fingerprint?
        var revision: Int?
    }

    /// Sends a GET; nil for an answer that the client has already.
    func get(_ path: String, _ items: [(String, String)], unlike tag: String? = nil) async throws -> (
        answer: Answer?, tag: String?
    ) {
        let query = items.map { "\($0.0)=\(Self.encoded($0.1))" }.joined(separator: "&")
        var request = HTTPClientRequest(url: "\(url)\(path)?\(query)")
        if let tag { request.headers.add(name: "If-None-Match", value: tag) }
        let response = try await send(&request)
        return (response.body.isEmpty ? nil : try Self.read(response.body), response.tag)
    }

    /// Sends a POST.
    func post(_ path: String, _ json: String) async throws -> Answer {
        var request = HTTPClientRequest(url: url + path)
        request.method = .POST
        request.headers = ["Content-Type": "application/json"]
        let body = Array(json.utf8)
        if body.count > 1_000 { request.headers.add(name: "Content-Encoding", value: "gzip") }
        request.body = .bytes(ByteBuffer(bytes: body.count > 1_000 ? gzip(body) : body))
        return try Self.read(try await send(&request).body)
    }

    private func send(_ request: inout HTTPClientRequest) async throws -> (body: [UInt8], tag: String?) {
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        // The client decompresses by itself.
        let body = Array(buffer: try await response.body.collect(upTo: Self.bytesMax))
        guard [200, 304].contains(response.status.code) else {
            throw TidemarkError(
                .internalFailure, "A client of the list got status \(response.status.code).",
                fix: "It said: \(String(decoding: body, as: UTF8.self))")
        }
        return (body, response.headers.first(name: "ETag"))
    }

    private static func read(_ body: [UInt8]) throws -> Answer {
        try JSONDecoder().decode(Answer.self, from: Data(body))
    }

    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(CharacterSet(charactersIn: "-._~()*,:")))
            ?? text
    }
}
