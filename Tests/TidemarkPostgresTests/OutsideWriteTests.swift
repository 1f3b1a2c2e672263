import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres

/// Rule 38: rows that psql, a job or another service writes directly into the tables sync too: in
/// the order of the commits, one revision a transaction, and never skipped.
@Suite struct OutsideWriteTests {
    @Test func `A9: a psql transaction over two tables is one revision`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside(
            """
            INSERT INTO team (id, name) VALUES (1, 'Kiel');
            INSERT INTO player (id, team_id, name) VALUES (1, 1, 'Anna'), (2, 1, 'Ben');
            UPDATE player SET name = 'Benjamin' WHERE id = 2
            """
        )
        let answer = try await zone.sync(at: 0)
        #expect(answer.revisions == [1])
        #expect(answer.changes == ["create team 1", "create player 1", "create player 2"])
        #expect(answer.text.contains(#""name":"Benjamin""#))
        #expect(!answer.text.contains(#""name":"Ben""#))
    }

    @Test func `A9: a transaction without a net effect is no revision`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside(
            "INSERT INTO team (id, name) VALUES (1, 'Kiel'); DELETE FROM team WHERE id = 1")
        let other = try await zone.database.connect()
        try await other.execute("BEGIN; INSERT INTO team (id, name) VALUES (2, 'Ulm'); ROLLBACK")
        #expect(try await zone.sync(at: 0).revisions == [])
    }

    @Test func `rule 6: revisions follow the order of commits, not of transaction starts`() async throws {
        let zone = try await PostgresZone()
        let slow = try await zone.database.connect()
        let quick = try await zone.database.connect()
        try await slow.execute("BEGIN; INSERT INTO team (id, name) VALUES (1, 'slow')")
        try await quick.execute("BEGIN; INSERT INTO team (id, name) VALUES (2, 'quick'); COMMIT")
        let first = try await zone.sync(at: 0)
        #expect(first.changes == ["create team 2"])
        // No request waits for the slow transaction, and none skips it.
        #expect(try await zone.sync(at: first.maxRevision).revisions == [])
        try await slow.execute("COMMIT")
        let second = try await zone.sync(at: first.maxRevision)
        #expect(second.revisions == [2])
        #expect(second.changes == ["create team 1"])
    }

    @Test func `rule 6: two transactions between two syncs keep their order`() async throws {
        let zone = try await PostgresZone()
        let slow = try await zone.database.connect()
        let quick = try await zone.database.connect()
        try await slow.execute("BEGIN; INSERT INTO team (id, name) VALUES (1, 'slow')")
        try await quick.execute("BEGIN; INSERT INTO team (id, name) VALUES (2, 'quick'); COMMIT")
        try await slow.execute("COMMIT")
        let answer = try await zone.sync(at: 0)
        #expect(answer.revisions == [1, 2])
        #expect(answer.changes == ["create team 2", "create team 1"])
    }

    @Test func `rule 6: a backend paused before its commit is not skipped when it resumes`() async throws {
        let zone = try await PostgresZone()
        let stopped = try await zone.database.connect()
        let pid = try #require(try await stopped.column("SELECT pg_backend_pid()").first.flatMap { Int($0) })
        try await stopped.execute("BEGIN; INSERT INTO team (id, name) VALUES (1, 'late')")
        #expect(kill(pid_t(pid), SIGSTOP) == 0)
        try await zone.database.writeOutside("INSERT INTO team (id, name) VALUES (2, 'now')")
        let first = try await zone.sync(at: 0, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"device"}}}}"#)
        #expect(first.revisions == [1, 2])
        #expect(kill(pid_t(pid), SIGCONT) == 0)
        try await stopped.execute("COMMIT")
        let second = try await zone.sync(at: first.maxRevision)
        #expect(second.changes == ["create team 1"])
    }

    @Test func `rule 1: a device does not overwrite a commit of psql during its request`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside("INSERT INTO team (id, name) VALUES (1, 'Kiel')")
        let revision = try await zone.sync(at: 0).maxRevision
        let other = try await zone.database.connect()
        try await other.execute("BEGIN; UPDATE team SET name = 'psql' WHERE id = 1")
        // The device's edit waits for the row lock, and must not win when it gets it.
        async let answer = zone.sync(at: revision, #"{"team":{"update":[1],"attributes":{"1":{"name":"device"}}}}"#)
        try await zone.untilSomebodyWaits()
        try await other.execute("COMMIT")
        let reply = try await answer
        #expect(reply.text.contains(#""conflict":true"#))
        #expect(try await zone.column("SELECT name FROM team") == ["psql"])
        #expect(try await zone.sync(at: revision).revisions == [2])
    }

    @Test func `rule 18: a unique value that psql commits during a request is a conflict with its row`() async throws {
        let zone = try await PostgresZone()
        let other = try await zone.database.connect()
        try await other.execute("BEGIN; INSERT INTO team (id, name, rank) VALUES (7, 'psql', 1)")
        async let answer = zone.sync(at: 0, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"device","rank":1}}}}"#)
        try await zone.untilSomebodyWaits()
        try await other.execute("COMMIT")
        let reply = try await answer
        #expect(reply.text.contains(#""rule":"unique""#))
        // The conflict names the holder with its revision.
        #expect(reply.revisions == [1])
        #expect(reply.text.contains(#""7":{"revision":1,"name":"psql","rank":1}"#))
        #expect(reply.maxRevision == 1)
    }

    @Test func `A9: rows written in replica mode are captured`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside(
            "SET LOCAL session_replication_role = replica; INSERT INTO team (id, name) VALUES (1, 'r')")
        #expect(try await zone.sync(at: 0).changes == ["create team 1"])
    }

    @Test func `A9: TRUNCATE, COPY and a changed key are captured`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside(
            "INSERT INTO tag (name, colour) SELECT 't' || n, 'red' FROM generate_series(1, 3) AS n")
        try await zone.database.writeOutside("UPDATE tag SET name = 'new' WHERE name = 't1'")
        try await zone.database.writeOutside("TRUNCATE tag CASCADE")
        let answer = try await zone.sync(at: 0)
        #expect(answer.revisions == [1, 2, 3])
        #expect(answer.text.contains(#""tag":{"create":["new"],"update":[],"delete":["t1"]"#))
        #expect(answer.text.contains(#""delete":["t2","t3","new"]"#))
    }
}
