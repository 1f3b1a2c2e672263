import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// A zone in PostgreSQL at one revision, for clients without rows.
struct PostgresReader: ZoneReader {
    let pg: PostgresConnection
    let served: PostgresSchema
    let zone: String
    let state: ZoneState
    /// The revision of rows that existed before the zone.
    let adopted: Int64
    /// The hash of the history; empty if the log has none.
    let chain: String

    var schema: SyncSchema { served.schema }

    /// Bounds the time of a statement; questions are planned one by one, with all that the planner knows.
    private static let settings = PostgresStatement(
        """
        SELECT set_config('statement_timeout', '\(ZoneReaderLimits.millisecondsMax)', true),
            set_config('lock_timeout', '\(ZoneReaderLimits.millisecondsMax / 2)', true),
            set_config('plan_cache_mode', 'force_custom_plan', true),
            set_config('enable_seqscan', 'on', true),
            set_config('enable_hashjoin', 'on', true),
            set_config('enable_mergejoin', 'on', true)
        """
    )

    private static let headSQL = """
        SELECT zone.epoch, zone.revision, zone.horizon, zone.time, zone.adopted,
            EXISTS (SELECT 1 FROM tidemark.outside AS outside WHERE outside.zone = $1),
            coalesce((SELECT latest.chain FROM tidemark.revision AS latest
                WHERE latest.zone = $1 AND latest.revision = zone.revision), '')
        FROM tidemark.zone AS zone
        WHERE zone.zone = $1
        """

    func rows(_ query: RowQuery) throws -> RowPage {
        let dialect = try dialect(query)
        var collected = CollectRows(query)
        for statement in try RowSQL(query, in: dialect).statements(limit: query.limit + 1) {
            let rows = try bounded(dialect) { try pg.rows(statement.sql, [zone] + statement.arguments) }
            guard take(rows, into: &collected) else { break }
        }
        return collected.page
    }

    /// Adds rows to a page, and returns whether it has room for more.
    private func take(_ rows: PostgresRows, into collected: inout CollectRows) -> Bool {
        let total = rows.columnCount - 1
        for index in 0..<rows.count {
            let row = rows[index]
            let cells = (2..<total).map { row.text($0) }
            guard collected.take(key: row.text(0), revision: row.integer(1) ?? 0, cells: cells) else { return false }
        }
        guard !rows.isEmpty, rows[0].integer(total) ?? 0 > rows.count else { return true }
        collected.endEarly()
        return false
    }

    func count(_ table: SyncedTable, where filter: RowFilter?, max: Int) throws -> Int {
        var query = RowQuery(table, limit: max, bytesMax: 0)
        query.filter = filter
        let dialect = try dialect(query)
        let statement = try RowSQL.count(table, where: filter, max: max, in: dialect)
        return try bounded(dialect) { Int(try pg.rows(statement.sql, [zone] + statement.arguments)[0].integer(0) ?? 0) }
    }

    /// The number of rows up to some thousand; beyond, what PostgreSQL has estimated, if the table is of one zone.
    func estimate(_ table: SyncedTable) throws -> RowEstimate {
        let counted = try count(table, where: nil, max: Self.countedMax)
        guard counted > Self.countedMax else { return .about(counted) }
        guard let stored = served.tables[table.name] else { return .atLeast(Self.countedMax) }
        let isShared = try stored.zoneColumn != nil && pg.integer("SELECT count(*) FROM tidemark.zone") != 1
        guard !isShared else { return .atLeast(Self.countedMax) }
        let estimate = try pg.integer(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass($1)",
            [stored.name]
        )
        guard let estimate, estimate > Self.countedMax else { return .atLeast(Self.countedMax) }
        return .about(Int(estimate))
    }

    private static let countedMax = 10_000

    func dialect(_ query: RowQuery) throws -> PostgresDialect {
        guard let table = served.tables[query.table.name] else { throw TablesAltered() }
        return PostgresDialect(table: table, query: query, adopted: adopted)
    }

    /// Translates the errors that a question can cause.
    func bounded<Result>(_ dialect: PostgresDialect, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let failure as PostgresFailure where failure.state == "57014" {
            throw TidemarkError(
                .queryTooCostly,
                "The query ran for longer than \(ZoneReaderLimits.millisecondsMax / 1_000) s.",
                fix: "Ask the operator for an index: \(dialect.indexSQL)",
                place: .init(table: dialect.table.table.name)
            )
        } catch let failure as PostgresFailure where failure.state.hasPrefix("22") {
            throw TidemarkError(
                dialect.query.keys == nil ? .invalidValue : .invalidKey,
                "A value in the query cannot be read as its column's type in PostgreSQL (SQLSTATE \(failure.state)).",
                fix: "Compare the column with values of its type.",
                place: .init(table: dialect.table.table.name)
            )
        }
    }
}

extension PostgresReader {
    /// Begins a read transaction; nil if changes of other programs wait to be absorbed, or the tables were altered.
    ///
    /// - Throws: `unknownZone`.
    init?(_ pg: PostgresConnection, _ served: PostgresSchema, zone: String) throws {
        guard !zone.utf8.contains(0) else { throw TidemarkError.unknownZone }
        let results = try pg.run([
            PostgresStatement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), Self.settings,
            CataloguePosition.statement(of: served.namespace, zone: zone), PostgresStatement(Self.headSQL, [zone]),
        ])
        guard !results[3].isEmpty else { throw TidemarkError.unknownZone }
        let row = results[3][0]
        let position = CataloguePosition(results[2])
        guard position == served.position, !row.isTrue(5) else { return nil }
        try pg.deallocateStatements(ifAlteredAt: position)
        self.pg = pg
        self.served = served
        self.zone = zone
        state = ZoneState(row, schema: served.hash)
        adopted = row.integer(4) ?? 0
        chain = row.text(6)
    }
}

extension PostgresTransaction {
    /// The zone as this transaction sees it.
    private var reader: PostgresReader {
        let chain = beginning.head?.chain ?? ""
        return PostgresReader(pg: pg, served: served, zone: zoneName, state: state, adopted: adopted, chain: chain)
    }

    /// - Throws: ``Overtaken`` if another program committed an unabsorbed change of a row whose columns are wanted.
    func rows(_ query: RowQuery) throws -> RowPage {
        // A key that its column cannot read fails this request alone.
        let page = try undoable { try reader.rows(query) }
        let place = schema.tables.firstIndex { $0.name == query.table.name }
        guard let place, !query.columns.isEmpty else { return page }
        _ = try revisions(of: page.rows.map { RecordID(table: place, key: $0.key) })
        return page
    }

    func chains(of revisions: Set<Int64>) throws -> [Int64: String] { try reader.chains(of: revisions) }
}
