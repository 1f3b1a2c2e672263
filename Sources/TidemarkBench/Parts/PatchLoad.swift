import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import TidemarkCore

/// Clients without rows that edit one record each, one `PATCH` after another, on connections of their own.
struct PatchLoad {
    let url: String
    let clients: Int
    /// The number of edits of each.
    let count: Int

    /// Runs all at once, and returns the time of each edit.
    func run() async throws -> Sample {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = clients
        let client = HTTPClient(configuration: configuration)
        do {
            let sample = try await run(over: client)
            try await client.shutdown()
            return sample
        } catch {
            // The first error says more.
            try? await client.shutdown()
            throw error
        }
    }

    private func run(over connections: HTTPClient) async throws -> Sample {
        var tags: [String] = []
        for client in 1...clients { tags.append(try await tag(of: client, over: connections)) }
        let start = ContinuousClock.now
        let latencies = try await withThrowingTaskGroup(of: [Double].self) { tasks in
            for (index, tag) in tags.enumerated() {
                tasks.addTask { try await edit(index + 1, from: tag, over: connections) }
            }
            return try await tasks.reduce(into: []) { $0 += $1 }
        }
        return Sample(seconds: (ContinuousClock.now - start) / .seconds(1), latencies: latencies)
    }

    private func tag(of record: Int, over connections: HTTPClient) async throws -> String {
        let response = try await connections.execute(
            HTTPClientRequest(url: "\(url)/tables/item/\(record)"), timeout: .seconds(60))
        _ = try await response.body.collect(upTo: 1 << 20)
        return response.headers.first(name: "ETag") ?? ""
    }

    private func edit(_ record: Int, from first: String, over connections: HTTPClient) async throws -> [Double] {
        var tag = first
        var times: [Double] = []
        for number in 1...count {
            var request = HTTPClientRequest(url: "\(url)/tables/item/\(record)")
            request.method = .PATCH
            request.headers = [
                "If-Match": tag, "Prefer": "return=minimal", "Content-Type": "application/json",
                "Idempotency-Key": RandomID.text(),
            ]
            request.body = .bytes(ByteBuffer(string: #"{"note":"a note of some forty characters or so \#(number)"}"#))
            let start = ContinuousClock.now
            let response = try await connections.execute(request, timeout: .seconds(60))
            let body = try await response.body.collect(upTo: 1 << 20)
            times.append((ContinuousClock.now - start) / .seconds(1))
            try Agreement.require(response.status == .noContent) { String(buffer: body) }
            tag = response.headers.first(name: "ETag") ?? ""
        }
        return times
    }
}
