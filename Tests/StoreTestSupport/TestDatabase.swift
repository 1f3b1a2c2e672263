import Foundation

/// A database of its own in the PostgreSQL that `Scripts/with-services.sh` has started.
///
/// The server deletes it at its end.
package struct TestDatabase: Sendable {
    /// Its address.
    package let address: String

    /// Creates it.
    package init() async throws {
        guard let server = ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"] else { throw NoPostgres() }
        let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: ""))"
        try await OtherProgram(server).execute("CREATE DATABASE \(name)")
        address = server.replacing(/\/[^\/]*$/, with: "/\(name)")
    }

    /// Another program's connection.
    package func connect() async throws -> OtherProgram { try await OtherProgram(address) }

    /// Runs statements as another program, in one transaction.
    package func writeOutside(_ sql: String) async throws { try await connect().execute("BEGIN; \(sql); COMMIT") }

    /// Makes ids gapless as in the embedded store, because a sequence skips those of a transaction
    /// that was rolled back.
    package func dropIdentities() async throws {
        try await writeOutside(
            """
            DO $$ DECLARE one record; BEGIN
                FOR one IN SELECT attrelid::regclass AS tbl, quote_ident(attname) AS col FROM pg_attribute
                    WHERE attidentity = 'd' AND attrelid IN
                        (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
                LOOP
                    EXECUTE format('ALTER TABLE %s ALTER COLUMN %s DROP IDENTITY', one.tbl, one.col);
                END LOOP;
            END $$
            """
        )
    }

    /// Makes later connections read tables by their indexes.
    package func forbidScans() async throws {
        let admin = try await connect()
        let name = try await admin.column("SELECT quote_ident(current_database())")[0]
        try await admin.execute("ALTER DATABASE \(name) SET enable_seqscan = off")
    }
}

/// There is no PostgreSQL to test with.
package struct NoPostgres: Error, CustomStringConvertible {
    package var description: String { "run the tests beside PostgreSQL: Scripts/with-services.sh Scripts/tests.sh" }
}
