import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Rule 38: rows locked by a forgotten transaction in psql.
@Suite struct HeldRowTests {
    private static func rename(_ team: Int, _ name: String) -> [UInt8] {
        Array(
            #"{"maxRevision":1,"changeSets":[{"team":{"update":[\#(team)],"attributes":{"\#(team)":{"name":"\#(name)"}}}}]}"#
                .utf8)
    }

    @Test func `a row locked by psql stalls only the requests for it, and the log names the holder`() async throws {
        let zone = try await PostgresZone(rowPatience: 300)
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('A'), ('B'), ('C')")
        _ = try await zone.sync(at: 0)
        let psql = try await zone.database.connect()
        try await psql.execute("SET application_name = 'psql'")
        try await psql.execute("BEGIN; UPDATE team SET name = 'held' WHERE id = 2")
        let results = try await zone.store.sync(
            zone: "main", together: [Self.rename(1, "one"), Self.rename(2, "two"), Self.rename(3, "three")])
        #expect(results.count == 3)
        _ = try results[0].get()
        _ = try results[2].get()
        let error = #expect(throws: TidemarkError.self) { try results[1].get() }
        #expect(error?.code == .unavailable)
        #expect(error?.recovery == .retry)
        let process = try await psql.column("SELECT pg_backend_pid()")[0]
        #expect(error?.message.contains("psql, process \(process) of PostgreSQL") == true)
        #expect(error?.message.contains("idle in transaction") == true)
        #expect(error?.fix.contains("pg_terminate_backend(\(process))") == true)
        let names = "SELECT name FROM team ORDER BY id"
        #expect(try await zone.column(names) == ["one", "B", "three"])
        try await psql.execute("ROLLBACK")
        _ = try await zone.store.sync(zone: "main", body: Self.rename(2, "two"))
        #expect(try await zone.column(names) == ["one", "two", "three"])
    }

    /// The server read the row before psql's deletion was committed, waited for it, and then updated nothing.
    @Test func `rule 38: a change set whose row psql deletes while it waits for the row is judged again`() async throws
    {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('A'), ('B')")
        _ = try await zone.sync(at: 0)
        let psql = try await zone.database.connect()
        let watch = try await zone.database.connect()
        try await psql.execute("BEGIN; DELETE FROM team WHERE id = 2")
        async let results = zone.store.sync(zone: "main", together: [Self.rename(2, "two"), Self.rename(1, "one")])
        let waiting = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'tidemark' AND wait_event_type = 'Lock'
            """
        while try await watch.column(waiting) == ["0"] {}
        try await psql.execute("COMMIT")
        let texts = try await results.map { String(decoding: try $0.get(), as: UTF8.self) }
        #expect(texts[0].contains(#""conflict":true,"reasons":[{"table":"team","key":2,"#), "\(texts[0])")
        #expect(texts[0].contains(#""rule":"deleted""#))
        #expect(texts[1].contains(#""conflict":false"#))
        #expect(try await zone.column("SELECT name FROM team") == ["one"])
    }
}
