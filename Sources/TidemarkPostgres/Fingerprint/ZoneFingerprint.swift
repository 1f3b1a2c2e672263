import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// The zone's fingerprint at each revision.
///
/// The first use computes it from all rows; then every commit carries it forward.
extension PostgresTransaction {
    func fingerprint(at revision: Int64) throws -> Fingerprint? {
        if let fingerprint = try storedFingerprint(at: revision) { return fingerprint }
        guard state.revision == revision else { return nil }
        let computed = try computeFingerprint()
        try keepFingerprint(computed, at: revision)
        return computed
    }

    func recomputeFingerprint() throws { try keepFingerprint(try computeFingerprint(), at: state.revision) }

    /// Stores the fingerprint of a new revision: the previous one plus the commit's difference.
    func carryFingerprint(to revision: Int64, adding change: @autoclosure () throws -> Fingerprint) throws {
        guard let previous = try storedFingerprint(at: revision - 1) else { return }
        try keepFingerprint(previous + change(), at: revision)
    }

    /// Computes the fingerprint of all rows.
    ///
    /// - Throws: ``Overtaken`` if another program's rows are in no revision yet.
    func computeFingerprint() throws -> Fingerprint { try pg.scanning { try sumOfRows() } }

    private func sumOfRows() throws -> Fingerprint {
        var sum = Fingerprint.none
        for table in schema.tables.compactMap({ table($0.name) }) {
            let rows = try pg.query(
                """
                SELECT \(FingerprintSQL.sum), EXISTS (SELECT 1 FROM tidemark.outside WHERE zone = $1)
                FROM \(table.name) AS app_row \(FingerprintSQL.hash(table, "app_row"))
                WHERE \(table.inZone("app_row")) AND $1::text IS NOT NULL
                """,
                [zoneName]
            )
            if rows[0].isTrue(1) { throw Overtaken() }
            sum = sum + (rows[0][0].flatMap(Fingerprint.init(hex:)) ?? .none)
        }
        return sum
    }

    func keepFingerprint(_ fingerprint: Fingerprint, at revision: Int64) throws {
        facts.fingerprints[revision] = nil
        try pg.query(
            """
            INSERT INTO tidemark.fingerprint VALUES ($1, $2::bigint, $3, $4)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                shape = excluded.shape
            """,
            [zoneName, "\(revision)", fingerprint.hex, fingerprintLayoutHash]
        )
    }

    func storedFingerprint(at revision: Int64) throws -> Fingerprint? {
        if let fingerprint = facts.fingerprints[revision] { return fingerprint }
        return try pg.text(
            """
            SELECT fingerprint
            FROM tidemark.fingerprint
            WHERE zone = $1 AND revision = $2::bigint AND shape = $3
            """,
            [zoneName, "\(revision)", fingerprintLayoutHash]
        ).flatMap(Fingerprint.init(hex:))
    }

    var fingerprintLayoutHash: String { served.fingerprintLayoutHash }

    // MARK: Ranges

    func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try staged.compare(ranges, limits: limits, measure: measured, changeSet: changeSet)
    }

    private func measured(_ ranges: [KeyRange]) throws -> [KeyRange] {
        var measured = ranges
        for index in measured.indices {
            measured[index].rows = 0
            measured[index].fingerprint = .none
        }
        for (table, list) in lists(ranges) {
            let rows = try pg.query(
                """
                SELECT key_range.ord, count(*), \(FingerprintSQL.sum)
                FROM \(KeyRangeSQL.join(table)) \(FingerprintSQL.hash(table, "app_row"))
                WHERE $1::text IS NOT NULL
                GROUP BY key_range.ord
                """,
                [zoneName, list]
            )
            for row in rows.map({ $0 }) {
                let index = Int(row.integer(0) ?? 0)
                measured[index].rows = Int(row.integer(1) ?? 0)
                measured[index].fingerprint = row[2].flatMap(Fingerprint.init(hex:)) ?? .none
            }
        }
        return measured
    }

    /// Renders the rows in the ranges, each with the revision that last changed it.
    private func changeSet(of ranges: [KeyRange]) throws -> String {
        try CommitTables.clear("truth", in: db)
        for (table, list) in lists(ranges) {
            let keys = try pg.text(
                """
                SELECT json_agg(\(table.keyJSON("app_row")))
                FROM \(KeyRangeSQL.join(table))
                WHERE $1::text IS NOT NULL
                """,
                [zoneName, list]
            )
            try db.cachedStatement(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_truth (tbl, key, follows)
                    SELECT ?, value, 0 FROM json_each(?)
                    """
            ).execute(arguments: [table.table.name, keys ?? "[]"])
        }
        try noteTruth()
        return try staged.renderTruth(nil)
    }

    /// Groups the ranges by table, each list as JSON.
    private func lists(_ ranges: [KeyRange]) -> [(PostgresTable, String)] {
        schema.tables.compactMap { table in
            let own = ranges.enumerated().filter { $0.element.table == table.name }
            guard !own.isEmpty, let stored = self.table(table.name) else { return nil }
            let list = own.map { index, range in
                let low = KeyRangeSQL.json(range.from)
                let high = KeyRangeSQL.json(range.to)
                return #"{"ord":\#(index),"low":\#(low),"high":\#(high)}"#
            }
            return (stored, "[\(list.joined(separator: ","))]")
        }
    }
}
