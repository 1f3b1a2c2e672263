import Foundation
import NIOPosix
import Testing
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// Rule 30, D2: other devices receive a change, over real HTTP.
@Suite(.timeLimit(.minutes(30))) struct EventsTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    private func cluster(_ limits: Limits = .standard) throws -> Cluster {
        try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (1, 'first')", limits: limits)
    }

    private static let edit = Array(
        #"{"maxRevision":1,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{}}}}]}"#.utf8)

    @Test func `D2: a commit sends the zone's revision to every listener`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let a = try await RawListener.open(server)
            let b = try await RawListener.open(server, path: "/zones/main/events")
            let start = try await cluster.store.latest(zone: "main")
            #expect(await a.line("id: ") == "id: \(start.epoch):1")
            #expect(await b.revision() == 1)
            _ = try await HTTPTransport(url: server.url).sync(zone: "main", body: Self.edit)
            for listener in [a, b] {
                #expect(await listener.line("id: ") == "id: \(start.epoch):2")
                #expect(
                    await listener.line("data: ") == #"data: {"zone":"main","epoch":"\#(start.epoch)","revision":2}"#)
            }
        }
    }

    @Test func `D2, F5: a commit by sqlite3 into the served file wakes listeners`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let listener = try await RawListener.open(server)
            #expect(await listener.revision() == 1)
            for revision in 2...4 as ClosedRange<Int64> {
                try cluster.writeOutside("INSERT INTO notes (text) VALUES ('outside')")
                #expect(await listener.revision() == revision)
            }
        }
    }

    @Test func `D2: a reconnecting listener receives the latest revision unless it knows it`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let epoch = try await cluster.store.latest(zone: "main").epoch
            for _ in 0..<3 {
                try cluster.writeOutside("INSERT INTO notes (text) VALUES ('meanwhile')")
                try await cluster.store.look(zone: "main")
            }
            let behind = try await RawListener.open(server, lastEventID: "\(epoch):2")
            #expect(await behind.revision() == 4, "not 3: only the latest counts")
            let even = try await RawListener.open(server, lastEventID: "\(epoch):4")
            #expect(await even.line(":") == ": tidemark")
            let other = try await RawListener.open(server, lastEventID: "other:9")
            #expect(await other.revision() == 4)
            let strange = try await RawListener.open(server, lastEventID: "12")
            #expect(await strange.revision() == 4)
            let ahead = try await RawListener.open(server, lastEventID: "\(epoch):119")
            #expect(await ahead.revision() == 4, "the server may be an older copy of itself")
            try cluster.writeOutside("INSERT INTO notes (text) VALUES ('now')")
            for listener in [even, ahead] { #expect(await listener.revision() == 5) }
        }
    }

    @Test func `D2: 200 listening devices receive one commit`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            let latest = try await cluster.store.latest(zone: "main")
            let (received, continuation) = AsyncStream.makeStream(of: (Int, Int64).self)
            let listeners = (0..<200).map { number in
                Task {
                    // A busy machine may take too long to connect.
                    while !Task.isCancelled {
                        do {
                            try await transport.listen(zone: "main", device: "listener \(number)", from: latest) {
                                event in
                                // A small change may be part of its event.
                                switch event {
                                case .moved(let to): continuation.yield((number, to.revision))
                                case .changed(let change): continuation.yield((number, change.end.revision))
                                default: break
                                }
                            }
                        } catch { continue }
                    }
                }
            }
            try await until { cluster.store.fanOut.listenerCount == 200 }
            _ = try await transport.sync(zone: "main", body: Self.edit)
            var revisions: [Int: Int64] = [:]
            for await (number, revision) in received {
                revisions[number] = revision
                if revisions.count == 200 { break }
            }
            #expect(Set(revisions.values) == [2])
            for listener in listeners { listener.cancel() }
            try await until { cluster.store.fanOut.listenerCount == 0 }
        }
    }

    @Test func `rule 21: a listener that does not read delays no other and uses no memory`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let stuck = try await RawListener.open(server, reads: false)
            let reader = try await RawListener.open(server)
            try await until { service.fanOut.listenerCount == 2 }
            let last = Int64(4_000)
            for revision in 1...last {
                service.fanOut.publish(zone: "main", epoch: "e", revision: revision)
                var received = await reader.revision()
                while let before = received, before < revision { received = await reader.revision() }
                #expect(received == revision)
            }
            try await stuck.read()
            var received: [Int64] = []
            while received.last != last, let revision = await stuck.revision() { received.append(revision) }
            #expect(received.last == last)
            #expect(received.count < 1_000, "the events in between were dropped")
        }
    }

    @Test func `an idle stream has heartbeats`() async throws {
        var limits = Limits.standard
        limits.heartbeatMilliseconds = 20
        limits.listenerTickMilliseconds = 10
        let cluster = try cluster(limits)
        try await TestServer.run(cluster.service, limits: limits) { server in
            let listener = try await RawListener.open(server)
            #expect(await listener.line(":") == ": tidemark")
            for _ in 0..<3 { #expect(await listener.line(":") == ":") }
        }
    }

    @Test func `a listener that hangs up is removed at once, without an event`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let listeners = [try await RawListener.open(server), try await RawListener.open(server)]
            for listener in listeners { #expect(await listener.revision() == 1) }
            #expect(cluster.store.fanOut.listenerCount == 2)
            try await listeners[0].close()
            try await until { cluster.store.fanOut.listenerCount == 1 }
            let head = try await server.send(.HEAD, "/events")
            #expect(head.status == 200)
            #expect(head.headers.first(name: "Content-Type") == "text/event-stream")
            try await until { cluster.store.fanOut.listenerCount == 1 }
        }
    }

    @Test func `rule 21: a listener above the limit is refused, and told when to retry`() async throws {
        var limits = Limits.standard
        limits.listenersMax = 1
        let cluster = try cluster(limits)
        try await TestServer.run(cluster.service, limits: limits) { server in
            let listener = try await RawListener.open(server)
            #expect(await listener.revision() == 1)
            let refusal = try await server.send(.GET, "/events")
            #expect(refusal.status == 503)
            #expect(refusal.headers.first(name: "Retry-After") != nil)
            #expect(try refusal.error.code == .unavailable)
            // Other requests are answered.
            let body = #"{"maxRevision":1}"#
            let answer = try await HTTPTransport(url: server.url).sync(zone: "main", body: Array(body.utf8))
            #expect(String(decoding: answer, as: UTF8.self).contains(#""changeSets":[]"#))
            let unknown = try await server.send(.GET, "/zones/other/events")
            #expect(unknown.status == 503)
            try await listener.close()
            try await until { cluster.store.fanOut.listenerCount == 0 }
            #expect(try await server.send(.GET, "/zones/other/events").status == 404)
            try await until { cluster.store.fanOut.listenerCount == 0 }
        }
    }

    @Test func `a stopping server ends the streams and tells when to retry`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let listener = try await RawListener.open(server)
            #expect(await listener.revision() == 1)
            cluster.store.fanOut.close()
            #expect(await listener.line("event: ") == "event: bye")
            #expect(await listener.line("retry: ") == "retry: 2000")
            let refusal = try await server.send(.GET, "/events")
            #expect(refusal.status == 503)
        }
    }
}

/// The system's limit of open files is divided between listeners and syncs.
@Suite struct ConnectionRoomTests {
    @Test(arguments: [
        (1_048_576, 14_096, 10_000), (20_000, 14_096, 10_000), (10_240, 10_112, 6_016), (1_024, 896, 448),
        (256, 128, 64), (64, 2, 1), (Int.max, 14_096, 10_000),
    ]) func `rule 21: under any limit of open files, listeners leave room for syncs`(
        files: Int, connections: Int, listeners: Int
    ) {
        let room = ConnectionRoom(syncs: 4_096, listeners: 10_000, files: files)
        #expect(room.connections == connections)
        #expect(room.listeners == listeners)
    }
}

/// Returns once a condition holds, which is checked every few milliseconds; the test's time limit
/// bounds it.
func until(_ condition: () -> Bool) async throws {
    let loop = MultiThreadedEventLoopGroup.singleton.any()
    while !condition() { try await loop.scheduleTask(in: .milliseconds(5)) {}.futureResult.get() }
}
