import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import StoreTestSupport
import TidemarkEngine
import TidemarkServer

/// A zone of either store behind a real server.
struct ServedZone: Sendable {
    /// The stores whose rows clients read over HTTP.
    static let stores = Store.all

    let zone: Zone
    let port: Int

    /// Serves the tables and rows of `sql`, and stops the server after `body`.
    static func run(
        _ store: Store, _ sql: String, clock: TestClock = TestClock(), body: (ServedZone) async throws -> Void
    ) async throws {
        let zone = try await Zone(store, sql, now: { clock.now })
        let application = TidemarkServerApplication(
            service: zone.service, gate: LocalGate(), port: 0,
            logger: Logger(label: "tidemark.test") { StreamLogHandler.standardError(label: $0) })
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let running = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { listening.yield($0) }
        }
        do {
            for await port in ports {
                try await body(ServedZone(zone: zone, port: port))
                break
            }
        } catch {
            running.cancel()
            _ = await running.result
            throw error
        }
        running.cancel()
        _ = await running.result
    }

    /// Sends a GET.
    func get(_ path: String, unlike tag: String? = nil) async throws -> Reply {
        var request = HTTPClientRequest(url: url(path))
        if let tag { request.headers.add(name: "If-None-Match", value: tag) }
        return try await send(request)
    }

    /// Sends a POST with a JSON body.
    func post(_ path: String, _ json: String) async throws -> Reply {
        var request = HTTPClientRequest(url: url(path))
        request.method = .POST
        request.headers = ["Content-Type": "application/json"]
        request.body = .bytes(ByteBuffer(string: json))
        return try await send(request)
    }

    private func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    private func send(_ request: HTTPClientRequest) async throws -> Reply {
        let response = try await HTTPClient.shared.execute(request, timeout: .minutes(10))
        let body = try await response.body.collect(upTo: 64 << 20)
        let tag = response.headers.first(name: "ETag")
        return try Reply(status: Int(response.status.code), text: String(buffer: body), tag: tag)
    }

    /// An answer, parsed as any JSON library would.
    struct Reply {
        let status: Int
        let text: String
        let tag: String?
        let object: [String: Any]

        init(status: Int, text: String, tag: String? = nil) throws {
            self.status = status
            self.text = text
            self.tag = tag
            guard !text.isEmpty else {
                object = [:]
                return
            }
            object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] ?? [:]
        }

        var code: String? { object["code"] as? String }
        var records: [[String: Any]] { object["records"] as? [[String: Any]] ?? [] }
        var changes: [[String: Any]] { object["changes"] as? [[String: Any]] ?? [] }
        var gone: [String] { object["gone"] as? [String] ?? [] }
        var differing: [Int] { object["differing"] as? [Int] ?? [] }
        var next: String? { object["next"] as? String }
        var isMore: Bool { object["more"] as? Bool ?? false }
        var rows: Int? { object["rows"] as? Int }
        var fingerprint: String? { object["fingerprint"] as? String }
    }
}
