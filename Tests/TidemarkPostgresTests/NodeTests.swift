import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkEngine
import TidemarkTestSupport

/// Rule 38: nodes hold no state: each node's commits are answered and announced by all others.
@Suite struct NodeTests {
    private static let team = #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Kiel"}}}}"#

    @Test func `D2: a commit on node A wakes a listener of node B`() async throws {
        let zone = try await PostgresZone()
        let other = try await zone.node()
        let start = try await other.latest(zone: "main")
        let listener = try other.fanOut.listen(to: "main", since: start)
        try await zone.untilHeard(by: 2)
        _ = try await zone.sync(at: 0, Self.team)
        let message = await listener.next()
        #expect(message == .moved(try await zone.store.latest(zone: "main")))
        await other.close()
    }

    @Test func `D2: a commit by psql wakes a listener too`() async throws {
        let zone = try await PostgresZone()
        let start = try await zone.store.latest(zone: "main")
        let listener = try zone.store.fanOut.listen(to: "main", since: start)
        try await zone.untilHeard(by: 1)
        try await zone.database.writeOutside("INSERT INTO team (id, name) VALUES (1, 'Kiel')")
        guard case .moved(let revision) = await listener.next() else {
            Issue.record("no news")
            return
        }
        #expect(revision.revision == 1)
    }

    @Test func `rule 3: a retry at another node gets the first answer`() async throws {
        let zone = try await PostgresZone()
        let other = try await zone.node()
        let body = Array(
            """
            {"maxRevision":0,"device":"d","changeSets":[{"id":"6f6d3a4e-0000-4000-8000-000000000001",
            "team":{"create":[-1],"attributes":{"-1":{"name":"Kiel"}}}}]}
            """.utf8
        )
        let first = try await zone.store.sync(zone: "main", body: body)
        #expect(try await other.sync(zone: "main", body: body) == first)
        #expect(try await zone.column("SELECT count(*) FROM team") == ["1"])
        await other.close()
    }

    @Test func `rule 6: concurrent commits of two nodes get dense revisions`() async throws {
        let zone = try await PostgresZone()
        let other = try await zone.node()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                let node = number.isMultiple(of: 2) ? zone.store : other
                let body = #"{"maxRevision":0,"limit":1,"changeSets":[\#(Self.team)]}"#
                group.addTask { _ = try await node.sync(zone: "main", body: Array(body.utf8)) }
            }
            try await group.waitForAll()
        }
        let answer = try await zone.sync(at: 0)
        #expect(answer.revisions == Array(1...40))
        #expect(answer.changes == (1...40).map { "create team \($0)" })
        await other.close()
    }

    @Test func `rule 9: a bad request in a group does not affect the others`() async throws {
        let zone = try await PostgresZone()
        let bad = #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":99,"name":"x"}}}}"#
        let refusalCount = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<30 {
                let set = number.isMultiple(of: 3) ? bad : Self.team
                group.addTask {
                    do {
                        _ = try await zone.sync(at: 0, set)
                        return 0
                    } catch let error as TidemarkError where error.code == .brokenReference { return 1 }
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(refusalCount == 10)
        #expect(try await zone.sync(at: 0).revisions == Array(1...20))
    }

    @Test func `of many nodes that open one database at once, one creates the tables`() async throws {
        let database = try await TestDatabase()
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.schemaSQL = PostgresZone.schema
        let stores = try await withThrowingTaskGroup(of: PostgresStore.self) { [options] group in
            for _ in 0..<4 { group.addTask { try await PostgresStore(options) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let epochs = try await stores.asyncMap { try await $0.latest(zone: "main").epoch }
        #expect(Set(epochs).count == 1)
        for store in stores { await store.close() }
    }
}

extension Array {
    fileprivate func asyncMap<Result>(_ body: (Element) async throws -> Result) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await body(element)) }
        return results
    }
}
