import TidemarkCore
import TidemarkEngine
import TidemarkSQL

extension PostgresTransaction {
    /// Computes the fingerprint of all rows.
    ///
    /// - Throws: ``Overtaken`` if another program's rows are in no revision yet.
    func fingerprintOfRows() throws -> Fingerprint { try pg.scanning { try sumOfRows() } }

    private func sumOfRows() throws -> Fingerprint {
        var sum = Fingerprint.none
        for table in try schema.tables.map({ try table($0.name) }) {
            let rows = try pg.query(
                """
                SELECT \(FingerprintSQL.sum), EXISTS (SELECT 1 FROM tidemark.outside WHERE zone = $1)
                FROM \(table.name) AS app_row \(FingerprintSQL.hash(table, "app_row"))
                WHERE \(table.inZone("app_row")) AND $1::text IS NOT NULL
                """,
                [zone]
            )
            if rows[0].isTrue(1) { throw Overtaken() }
            sum = sum + (rows[0][0].flatMap(Fingerprint.init(hex:)) ?? .none)
        }
        return sum
    }

    // MARK: Ranges

    func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] {
        let question = RowQuery(query.table, limit: 0, bytesMax: 0)
        let dialect = PostgresDialect(table: try table(query.table.name), query: question, adopted: try head().adopted)
        return try ReadFingerprints(pg: pg, zone: zone, dialect: dialect).sums(query)
    }
}
