import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TidemarkCore

/// Clients that push one small change set after another, each in a request of its own and on a
/// connection of its own.
struct PushLoad {
    let url: String
    let clients: Int
    /// The number of change sets that each pushes.
    let count: Int
    /// The first revision of each client: 1 where the zone began with rows.
    var firstRevision: Int64 = 0
    /// The zone of a client.
    var zone: @Sendable (Int) -> String = { _ in "main" }

    private struct Head: Decodable { let maxRevision: Int64 }

    /// Pushes all at once, and returns the time of each push.
    func run() async throws -> Sample { try await connected { try await push($0, over: $1) } }

    /// Sends as many requests that cost the server next to nothing, in the same way: the cost of
    /// HTTP.
    func runBare() async throws -> Sample { try await run { _ in HTTPClientRequest(url: "\(url)/healthz") } }

    /// Sends as many requests without a body, and returns the time of each.
    func run(
        expecting status: HTTPResponseStatus = .ok, request: @escaping @Sendable (_ client: Int) -> HTTPClientRequest
    ) async throws -> Sample {
        try await connected { client, connections in
            var times: [Double] = []
            for _ in 1...count {
                let start = ContinuousClock.now
                _ = try await answer(request(client), over: connections, expecting: status)
                times.append((ContinuousClock.now - start) / .seconds(1))
            }
            return times
        }
    }

    /// Runs a client on its connection, and returns the time of each request.
    private typealias Client = @Sendable (_ number: Int, HTTPClient) async throws -> [Double]

    private func connected(_ work: @escaping Client) async throws -> Sample {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = clients
        let client = HTTPClient(configuration: configuration)
        do {
            let sample = try await run(work, over: client)
            try await client.shutdown()
            return sample
        } catch {
            // The first error says more.
            try? await client.shutdown()
            throw error
        }
    }

    private func run(_ work: @escaping Client, over connections: HTTPClient) async throws -> Sample {
        let start = ContinuousClock.now
        let latencies = try await withThrowingTaskGroup(of: [Double].self) { tasks in
            for client in 1...clients { tasks.addTask { try await work(client, connections) } }
            return try await tasks.reduce(into: []) { $0 += $1 }
        }
        return Sample(seconds: (ContinuousClock.now - start) / .seconds(1), latencies: latencies)
    }

    private func push(_ client: Int, over connections: HTTPClient) async throws -> [Double] {
        // A new device for each run, so that no change set is another device's retry.
        let device = RandomID.text()
        var times = [Double]()
        var revision = firstRevision
        for number in 1...count {
            let id = RandomID.text()
            // At most one revision of the others, so that the answers stay small.
            let body =
                #"{"maxRevision":\#(revision),"limit":1,"device":"\#(device)","changeSets":[{"id":"\#(id)","#
                + #""item":{"create":[-\#(number)],"attributes":{"-\#(number)":{"name":"item","note":"#
                + #""a note of some forty characters or so","amount":1,"price":0.5,"#
                + #""made":"2026-11-21T10:00:00Z","kind":"k","mark":null}}}}]}"#
            let start = ContinuousClock.now
            let answer = try await post(body, to: zone(client), over: connections)
            times.append((ContinuousClock.now - start) / .seconds(1))
            revision = try JSONDecoder().decode(Head.self, from: answer).maxRevision
        }
        return times
    }

    private func post(_ body: String, to zone: String, over connections: HTTPClient) async throws -> Data {
        var request = HTTPClientRequest(url: "\(url)/zones/\(zone)/sync")
        request.method = .POST
        request.body = .bytes(ByteBuffer(string: body))
        return try await answer(request, over: connections)
    }

    private func answer(
        _ request: HTTPClientRequest, over connections: HTTPClient, expecting status: HTTPResponseStatus = .ok
    ) async throws -> Data {
        let response = try await connections.execute(request, timeout: .seconds(60))
        let answer = try await response.body.collect(upTo: 64 << 20)
        try Agreement.require(response.status == status) { String(buffer: answer) }
        return Data(answer.readableBytesView)
    }
}
