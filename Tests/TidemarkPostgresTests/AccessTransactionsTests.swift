import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkPostgres
import TidemarkTestSupport

/// The tables of users in PostgreSQL: nodes that start together, and lost connections.
@Suite struct AccessTransactionsTests {
    @Test func `nodes that start together on an empty database agree`() async throws {
        let database = try await TestDatabase()
        let nodes = try await withThrowingTaskGroup(of: AccessTransactions.self, returning: [AccessTransactions].self) {
            group in
            for _ in 0..<8 { group.addTask { try await AccessTransactions(address: database.address) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let bench = AccessBench(nodes[0])
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        for node in nodes { #expect(try await bench.node(node).refusal(of: phone) == nil) }
        #expect(try await database.connect().column("SELECT count(*) FROM tidemark.tidemark_access") == ["1"])
    }

    @Test func `connections that were lost while idle are made anew, without an error for anybody`() async throws {
        let database = try await TestDatabase()
        let bench = AccessBench(try await AccessTransactions(address: database.address))
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        for _ in 0..<2 {
            #expect(try await bench.refusal(of: phone) == nil)
            try await database.connect().execute(
                """
                SELECT pg_terminate_backend(pid)
                FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """
            )
        }
        #expect(try await bench.refusal(of: phone) == nil)
        try await bench.gate.revoke(phone)
        #expect(try await bench.user(phone) == nil)
    }

    @Test func `a database without the tables, or without a server, admits nobody and says so`() async throws {
        let database = try await TestDatabase()
        let bench = AccessBench(try await AccessTransactions(address: database.address))
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.refusal(of: phone) == nil)
        try await database.writeOutside("ALTER TABLE tidemark.tidemark_access RENAME TO away")
        #expect(try await bench.refusal(of: phone) == .unavailable)
        let error = await #expect(throws: TidemarkError.self) {
            try await AccessTransactions(address: "postgres://127.0.0.1:1/none?connect_timeout=2")
        }
        #expect(error?.code == .unavailable)
    }

    @Test func `forty requests at once share a few reads of the version, and each sees the commit before it`()
        async throws
    {
        let database = try await TestDatabase()
        let access = try await AccessTransactions(address: database.address)
        let other = try await AccessTransactions(address: database.address)
        for round in 0..<20 {
            try await other.transaction { try Members($0, now: 0).add("user \(round)") }
            let versions = try await withThrowingTaskGroup(of: Int64.self, returning: [Int64].self) { group in
                for _ in 0..<40 { group.addTask { try await access.version() } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(versions) == [try await other.version()])
        }
    }

    @Test func `a look can write nothing`() async throws {
        let database = try await TestDatabase()
        let access = try await AccessTransactions(address: database.address)
        await #expect(throws: TidemarkError.self) {
            try await access.read { try $0.rows("INSERT INTO tidemark_user (id, created) VALUES ('x', 1)", []) }
        }
        #expect(try await access.read { try Members($0, now: 0).users() }.isEmpty)
    }
}
