import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// The statements in PostgreSQL's log: every statement of the hot path names one zone,
/// so the tables can be distributed by it, and the number of statements does not grow with the
/// rows.
@Suite struct HotPathTests {
    @Test func `A9: every statement of pushes, conflicts and catch-ups filters by zone`() async throws {
        let zone = try await PostgresZone()
        let statements = try await recorded(zone) {
            let answer = try await zone.sync(
                at: 0,
                #"""
                {"team":{"create":[-1],"attributes":{"-1":{"name":"Kiel","rank":1}}},
                 "player":{"create":[-2],"attributes":{"-2":{"team_id":-1,"name":"Anna"}}},
                 "tag":{"create":["red"]},"player_tag":{"create":[[-2,"red"]]}}
                """#
            )
            _ = try await zone.sync(
                at: answer.maxRevision, #"{"team":{"update":[1],"attributes":{"1":{"rank":2}}}}"#,
                #"{"team":{"delete":[1]}}"#)
            _ = try await zone.sync(
                at: 1, #"{"player":{"update":[1],"attributes":{"1":{"name":"late"}}}}"#,
                #"{"player":{"create":[-5],"attributes":{"-5":{"name":"none","team_id":1}}}}"#)
            _ = try await zone.sync(at: 0)
        }
        #expect(statements.count > 20)
        for statement in statements {
            #expect(statement.zone == "main", "\(statement.sql)")
            #expect(statement.sql.contains("zone"), "\(statement.sql)")
        }
    }

    @Test func `the rows of a new database are summed up when it is opened, so that its first commit reads no table`()
        async throws
    {
        let rows =
            "INSERT INTO team VALUES (1, 'Kiel', 1); INSERT INTO player (id, team_id, name) VALUES (1, 1, 'Anna');"
        let zone = try await PostgresZone(schema: PostgresZone.schema + rows)
        let observer = try await zone.database.connect()
        #expect(try await observer.column("SELECT zone || revision FROM tidemark.fingerprint") == ["main1"])
        let statements = try await recorded(zone) {
            _ = try await zone.sync(at: 1, #"{"team":{"update":[1],"attributes":{"1":{"name":"Kiel!"}}}}"#)
        }
        #expect(!statements.contains { $0.sql.contains("sum(row_hash.high)") })
    }

    @Test func `a push of a thousand rows takes as many statements as a push of one`() async throws {
        let zone = try await PostgresZone()
        func push(_ count: Int) async throws -> Int {
            let keys = (1...count).map { "-\($0)" }
            let attributes = keys.map { #""\#($0)":{"name":"t"}"# }
            let revision = try await zone.store.latest(zone: "main").revision
            return try await recorded(zone) {
                _ = try await zone.sync(
                    at: revision,
                    #"{"team":{"create":[\#(keys.joined(separator: ","))],"attributes":{\#(attributes.joined(separator: ","))}}}"#
                )
            }.count
        }
        // The first request computes values that later ones update.
        _ = try await push(1)
        let one = try await push(1)
        let thousand = try await push(1_000)
        #expect(one == thousand)
    }

    @Test func `a group of forty devices takes as many statements as a group of four`() async throws {
        let zone = try await PostgresZone()
        func push(_ numbers: ClosedRange<Int>) async throws -> Int {
            try await recorded(zone) {
                let revision = try await zone.store.latest(zone: "main").revision
                let results = try await zone.store.sync(
                    zone: "main",
                    together: numbers.map { number in
                        Array(
                            #"""
                            {"maxRevision":\#(revision),"device":"device \#(number)","changeSets":[{
                             "id":"6f6d3a4e-0000-4000-8000-\#(String(format: "%012d", number))",
                             "team":{"create":[-1],"attributes":{"-1":{"name":"t","rank":\#(number)}}},
                             "player":{"create":[-2],"attributes":{"-2":{"team_id":-1,"name":"p"}}}}]}
                            """#.utf8
                        )
                    }
                )
                for result in results { _ = try result.get() }
            }.count
        }
        _ = try await push(1...2)
        let four = try await push(11...14)
        let forty = try await push(21...60)
        #expect(forty == four)
        #expect(four < 25)
    }

    // MARK: The server's log

    private struct Statement {
        let sql: String
        /// The first parameter.
        let zone: String?
    }

    /// The statements on tables that PostgreSQL logs while `body` runs.
    private func recorded(_ zone: PostgresZone, _ body: () async throws -> Void) async throws -> [Statement] {
        let admin = try await zone.database.connect()
        let log = try #require(
            try await admin.column("SHOW data_directory").first.map {
                URL(filePath: $0).deletingLastPathComponent().appending(path: "log")
            }
        )
        let backends = """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                AND application_name = 'tidemark' AND pid <> pg_backend_pid()
            """
        let name = try #require(try await admin.column("SELECT current_database()").first)
        // Only new connections use the setting, and these are new.
        try await admin.execute("ALTER DATABASE \(name) SET log_statement = 'all'")
        try await admin.execute("SELECT pg_terminate_backend(pid) FROM (\(backends)) AS b (pid)")
        let start = try Data(contentsOf: log).count
        try await body()
        let pids = Set(try await admin.column(backends))
        try await admin.execute("ALTER DATABASE \(name) RESET log_statement")
        try await admin.execute("SELECT pg_terminate_backend(pid) FROM (\(backends)) AS b (pid)")
        let text = String(decoding: try Data(contentsOf: log).dropFirst(start), as: UTF8.self)
        return Self.statements(text, of: pids)
    }

    private static func statements(_ log: String, of pids: Set<String>) -> [Statement] {
        // A line of the log begins with a time and the process; others go on with a message.
        let entries = log.replacing("\n\t", with: " ").split(separator: "\n").map(String.init)
        var statements: [Statement] = []
        for (index, entry) in entries.enumerated() {
            guard let match = entry.firstMatch(of: /\[(\d+)\] LOG:  execute t\d+: (.*)/), pids.contains(String(match.1))
            else { continue }
            let next = index + 1 < entries.count ? entries[index + 1] : ""
            let parameter = next.firstMatch(of: /parameters: \$1 = '([^']*)'/)
            statements.append(Statement(sql: String(match.2), zone: parameter.map { String($0.1) }))
        }
        // The check for altered tables reads PostgreSQL's catalogue, which belongs to no
        // zone.
        return statements.filter { $0.sql.contains(/FROM|INTO|UPDATE/) && !$0.sql.contains(/SHOW|FROM pg_class/) }
    }
}
