import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The captured rows of a transaction, reduced to one effect a record.
extension PostgresTransaction {
    /// The transaction whose captured rows are read.
    enum Author {
        case own
        /// A committed transaction of another program.
        case outside(xid: String)
    }

    /// Reads and deletes the captured rows of a transaction after `steps`, and passes on the effect on each record.
    ///
    /// Few effects arrive in the same round trip. It throws ``Overtaken`` if another program committed unabsorbed
    /// changes of the same records: they come first in the history, so this transaction must start again.
    func readEffects(_ author: Author, isFew: Bool = false, after steps: inout Steps, _ effect: (Effect) throws -> Void)
        throws
    {
        var last: [PostgresStatement] = []
        var parameters: [String?] = [zone]
        switch author {
        case .own: last.append(PostgresStatement(Self.overtakenSQL, [zone]))
        case .outside(let xid): parameters.append(xid)
        }
        let statement = PostgresStatement(Self.effectsSQL(author), parameters)
        if isFew { last.append(statement) }
        let results = try steps.run(last)
        if case .own = author, results[0][0].isTrue(0) { throw Overtaken() }
        var reading = EffectReading(schema)
        func take(_ row: PostgresRows.Row) throws {
            guard let found = try reading.take(row) else { return }
            try effect(found)
        }
        if isFew {
            for row in results[results.count - 1].map({ $0 }) { try take(row) }
        } else {
            try pg.each(statement.sql, parameters: statement.parameters) { try take($0) }
        }
        if let found = reading.finish() { try effect(found) }
    }

    /// Mostly there are no others, and nothing is compared.
    private static let overtakenSQL = "SELECT \(isOvertaken("<")) OR \(isOvertaken(">"))"

    private static func isOvertaken(_ comparison: String) -> String {
        let others =
            "FROM tidemark.capture AS other WHERE other.zone = $1 AND other.xid \(comparison) pg_current_xact_id()"
        return """
            CASE WHEN EXISTS (SELECT 1 \(others)) THEN EXISTS (
                SELECT 1 \(others) AND (other.tbl, other.key) IN (
                    SELECT own.tbl, own.key
                    FROM tidemark.capture AS own
                    WHERE own.zone = $1 AND own.xid = pg_current_xact_id()))
            ELSE false END
            """
    }

    private static func effectsSQL(_ author: Author) -> String {
        let xid: String
        switch author {
        case .own: xid = "pg_current_xact_id()"
        case .outside: xid = "$2::xid8"
        }
        return """
            WITH captured AS (
                DELETE FROM tidemark.capture
                WHERE zone = $1 AND xid = \(xid)
                RETURNING seq, tbl, key, before, after
            )
            SELECT tbl, key, before, after
            FROM captured
            ORDER BY tbl, length(key), key, seq
            """
    }
}

/// Reads captured rows, those of one record after another.
private struct EffectReading {
    private let schema: SyncSchema
    private let places: [String: Int]
    private var name: RecordID?
    private var path = CapturedPath()

    init(_ schema: SyncSchema) {
        self.schema = schema
        places = schema.places
    }

    /// Takes a captured row; returns the effect on the record before, if this one is of another.
    mutating func take(_ row: PostgresRows.Row) throws -> Effect? {
        guard let place = places[row.text(0)] else { return nil }
        let next = RecordID(table: place, key: row.text(1))
        let layout = schema.layouts[place]
        let finished = next == name ? nil : finish()
        name = next
        path.add(
            from: try row[2].map { try layout.row(key: next.key, object: $0) },
            to: try row[3].map { try layout.row(key: next.key, object: $0) })
        return finished
    }

    /// Returns the effect on the last record.
    mutating func finish() -> Effect? {
        defer { path = CapturedPath() }
        return name.flatMap { path.effect(on: $0) }
    }
}
