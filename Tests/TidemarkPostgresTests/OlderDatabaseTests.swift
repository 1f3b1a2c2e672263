import StoreTestSupport
import Testing
import TidemarkCore

/// A database that an earlier version served.
@Suite struct OlderDatabaseTests {
    @Test func `a database of an earlier layout is refused with the cure and stays as it is`() async throws {
        let zone = try await PostgresZone()
        await zone.store.close()
        try await zone.database.writeOutside(
            "UPDATE tidemark.served SET layout = 5; ALTER TABLE tidemark.log DROP COLUMN absorbed")
        let columns = """
            SELECT attrelid::regclass || '.' || attname
            FROM pg_attribute
            WHERE attrelid::regclass::text LIKE 'tidemark.%' AND NOT attisdropped
            ORDER BY 1
            """
        let before = try await zone.column(columns)
        let error = await #expect(throws: TidemarkError.self) { try await zone.node() }
        #expect(error?.code == .unusableFile)
        #expect(error?.message.contains("layout 5") == true)
        #expect(error?.fix.contains("Serve it with that version") == true)
        #expect(try await zone.column(columns) == before)
    }
}
