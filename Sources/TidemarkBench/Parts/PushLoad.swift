import Foundation
import Tidemark

/// Clients that push one small change set after another, each in a request of its own.
struct PushLoad {
    let url: String
    let clients: Int
    /// How many change sets each pushes.
    let count: Int
    /// The zone of a client.
    var zone: @Sendable (Int) -> String = { _ in "main" }

    private struct Head: Decodable { let maxRevision: Int64 }

    /// Pushes all at once, and says how long each push took.
    func run() async throws -> Sample {
        let transport = try HTTPTransport(url: url)
        let start = ContinuousClock.now
        let latencies = try await withThrowingTaskGroup(of: [Double].self) { tasks in
            for client in 1...clients {
                tasks.addTask { try await push(client, over: transport) }
            }
            return try await tasks.reduce(into: []) { $0 += $1 }
        }
        return Sample(
            seconds: (ContinuousClock.now - start) / .seconds(1),
            latencies: latencies
        )
    }

    private func push(_ client: Int, over transport: HTTPTransport) async throws -> [Double] {
        // A device of a run of its own: nobody else's retry.
        let device = RandomID.text()
        var (times, revision) = ([Double](), Int64(0))
        for number in 1...count {
            let id = RandomID.text()
            // At most one revision of the others', so that the answers stay small.
            let body =
                #"{"maxRevision":\#(revision),"limit":1,"device":"\#(device)","changeSets":[{"id":"\#(id)","#
                + #""item":{"create":[-\#(number)],"attributes":{"-\#(number)":{"name":"item","note":"#
                + #""a note of some forty characters or so","amount":1,"price":0.5,"#
                + #""made":"2026-11-21T10:00:00Z","kind":"k","mark":null}}}}]}"#
            let start = ContinuousClock.now
            let answer = try await transport.sync(zone: zone(client), body: Array(body.utf8))
            times.append((ContinuousClock.now - start) / .seconds(1))
            revision = try JSONDecoder().decode(Head.self, from: Data(answer)).maxRevision
        }
        return times
    }
}
