import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Tidemark
import TidemarkGzip

/// Many devices miss the same revisions, and request them at the same time.
enum CrowdBenchmark: Benchmark {
    static let name = "crowd"
    static let summary = "many requests at once for the same change sets, compressed"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let (clients, each) = setting.isTrial ? (3, 2) : (50, 20)
        return [10, 100, 1_000].filter { $0 <= setting.rows }.map { rows in
            BenchCase(
                "\(clients * each) answers of \(rows) rows, on \(clients) connections",
                against: "the same answers uncompressed"
            ) {
                let place = try await Workplace(setting, rows: setting.rows)
                let writer = try await place.device(at: try await place.join())
                for sql in CatchUpBenchmark.changes(of: rows) { try await writer.write(sql) }
                try await writer.engine.sync()
                try writer.close()
                let crowd = Crowd(place: place, clients: clients, each: each)
                return BenchJob(
                    ours: { try await crowd.ask(accepting: "gzip", $0) },
                    ceiling: { try await crowd.ask(accepting: "identity", .direct) }, finish: { try await place.end() })
            }
        }
    }

    /// Clients that request everything after the first revision.
    private struct Crowd: Sendable {
        let place: Workplace
        let clients: Int
        let each: Int

        func ask(accepting coding: String, _ way: BenchJob.Way) async throws -> Sample {
            var configuration = HTTPClient.Configuration()
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = clients
            let client = HTTPClient(configuration: configuration)
            do {
                let url = place.url(way)
                let wanted = try await answer(accepting: "identity", at: url, over: client)
                var bodies: [[UInt8]] = []
                var sample = try await place.counting {
                    try await Sample.time { bodies = try await all(accepting: coding, at: url, over: client) }
                }
                sample.wire?.requests = bodies.count
                try await client.shutdown()
                for body in Set(bodies) {
                    let plain = coding == "gzip" ? try gunzip(body, bytesMax: 64 << 20) : body
                    try Agreement.require(plain.elementsEqual(coding == "gzip" ? wanted.dropLast() : wanted[...])) {
                        "an answer is another one's"
                    }
                }
                return sample
            } catch {
                // The first error says more.
                try? await client.shutdown()
                throw error
            }
        }

        private func all(accepting coding: String, at url: String, over client: HTTPClient) async throws -> [[UInt8]] {
            try await withThrowingTaskGroup(of: [[UInt8]].self) { tasks in
                for _ in 0..<clients {
                    tasks.addTask {
                        var bodies: [[UInt8]] = []
                        for _ in 0..<each { bodies.append(try await answer(accepting: coding, at: url, over: client)) }
                        return bodies
                    }
                }
                return try await tasks.reduce(into: []) { $0 += $1 }
            }
        }

        private func answer(accepting coding: String, at url: String, over client: HTTPClient) async throws -> [UInt8] {
            var request = HTTPClientRequest(url: "\(url)/sync")
            request.method = .POST
            request.headers.add(name: "Accept-Encoding", value: coding)
            request.body = .bytes(ByteBuffer(string: #"{"maxRevision":1}"#))
            let response = try await client.execute(request, timeout: .seconds(60))
            let body = try await response.body.collect(upTo: 64 << 20)
            try Agreement.require(response.status == .ok) { String(buffer: body) }
            return Array(body.readableBytesView)
        }
    }
}
