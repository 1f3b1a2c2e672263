import NIOCore
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// The relay that tests and demonstrations cut.
@Suite struct RelayTests {
    private let request = Array(#"{"maxRevision":0}"#.utf8)

    @Test func `a relay forwards requests, refuses them when cut, and resumes on the same port`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let relay = TCPRelay(targetPort: server.port)
            let port = try await relay.start()
            let transport = try HTTPTransport(url: "http://127.0.0.1:\(port)")
            _ = try await transport.sync(zone: "main", body: request)
            let traffic = relay.traffic
            #expect(traffic.connections == 1)
            #expect(traffic.bytesUp > request.count)
            #expect(traffic.bytesDown > request.count)

            try await relay.stop()
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: request)
            }
            #expect(error?.code == .unreachable)
            #expect(relay.traffic == traffic)

            #expect(try await relay.start() == port)
            _ = try await transport.sync(zone: "main", body: request)
            #expect(relay.traffic.connections == 2)
            try await relay.stop()
        }
    }

    @Test func `a sync in flight fails at once when the network is cut`() async throws {
        let arrived = AsyncStream.makeStream(of: Void.self)
        let service = ScriptedService { _, body in
            arrived.continuation.yield()
            let forever = AsyncStream<Void> { _ in }
            for await _ in forever {}
            return body
        }
        try await TestServer.run(service) { server in
            let relay = TCPRelay(targetPort: server.port)
            let transport = try HTTPTransport(url: "http://127.0.0.1:\(try await relay.start())")
            let sync = Task { try await transport.sync(zone: "main", body: request) }
            for await _ in arrived.stream { break }
            try await relay.stop()
            let error = await #expect(throws: TidemarkError.self) { try await sync.value }
            #expect(error?.code == .unreachable)
        }
    }

    @Test func `a relay without a target closes the connection`() async throws {
        let unused = TCPRelay(targetPort: 1)
        let closedPort = try await unused.start()
        try await unused.stop()
        let relay = TCPRelay(targetPort: closedPort)
        let transport = try HTTPTransport(url: "http://127.0.0.1:\(try await relay.start())")
        let error = await #expect(throws: TidemarkError.self) { try await transport.sync(zone: "main", body: request) }
        #expect(error?.code == .unreachable)
        try await relay.stop()
    }

    @Test func `a slow link keeps the order of data, and a stall in it ends by itself`() async throws {
        // An answer of many chunks.
        let numbers = (0..<100_000).map(String.init).joined(separator: ",")
        let answer = Array("{\"numbers\":[\(numbers)]}".utf8)
        try await TestServer.run(ScriptedService { _, _ in answer }) { server in
            let relay = TCPRelay(targetPort: server.port, roundTrip: .milliseconds(4))
            relay.follow(RelayPlan([.answerDropped, .stall(.down, after: 500, for: .milliseconds(10))]))
            let transport = try HTTPTransport(url: "http://127.0.0.1:\(try await relay.start())")
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: request)
            }
            #expect(error?.code == .unreachable)
            #expect(try await transport.sync(zone: "main", body: request) == answer)
            #expect(try await transport.sync(zone: "main", body: request) == answer)
            #expect(relay.traffic.connections == 2 && relay.traffic.faults == 2)
            try await relay.stop()
        }
    }
}
