import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// A zone in PostgreSQL at one revision, for clients without rows.
struct PostgresReader: ZoneReader, PostgresBooks {
    let access: ZoneAccess
    let books: BookState
    private let tables: TableReader

    var pg: PostgresConnection { tables.pg }
    var zone: String { access.zone }

    /// Bounds the time of a statement; questions are planned one by one, with all that the planner knows.
    private static let settings = PostgresStatement(
        """
        SELECT set_config('statement_timeout', '\(ZoneReaderLimits.millisecondsMax)', true),
            set_config('lock_timeout', '\(ZoneReaderLimits.millisecondsMax / 2)', true),
            set_config('plan_cache_mode', 'force_custom_plan', true),
            set_config('enable_seqscan', 'on', true),
            set_config('enable_hashjoin', 'on', true),
            set_config('enable_mergejoin', 'on', true)
        """)

    /// Begins a read transaction; nil if changes wait to be absorbed; throws `unknownZone` or ``TablesAltered``.
    init?(_ pg: PostgresConnection, _ served: PostgresSchema, for access: ZoneAccess) throws {
        let begin = PostgresStatement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        let books = try ZoneConnection(pg, zone: access.zone, of: served, begin: [begin, Self.settings])
        guard let head = try books.head(schema: served.hash, layout: served.schema.fingerprintLayout) else {
            throw TidemarkError.unknownZone
        }
        guard !head.hasOutsideChanges else { return nil }
        self.access = access
        self.books = BookState(head, ways: served.ways)
        tables = TableReader(pg: pg, served: served, zone: access.zone, adopted: head.adopted)
    }

    func tableRows(_ question: TableQuestion) throws -> TableAnswer { try tables.answer(question) }

    func count(_ table: SyncedTable, where filter: RowFilter?, max: Int, estimates: Bool) throws -> RowEstimate {
        try tables.count(table, where: filter, max: max, estimates: estimates)
    }
}

/// The rows of a zone in PostgreSQL, by tables and columns, in any transaction.
struct TableReader {
    let pg: PostgresConnection
    let served: PostgresSchema
    let zone: String
    /// The revision of the rows that existed before the zone.
    let adopted: Int64

    func answer(_ question: TableQuestion) throws -> TableAnswer {
        switch question {
        case .page(let query): return TableAnswer(try page(query))
        case .sums(let query):
            let dialect = try dialect(RowQuery(query.table, where: query.filter, limit: query.rowsMax ?? 0))
            return TableAnswer(
                try bounded(dialect) { try ReadFingerprints(pg: pg, zone: zone, dialect: dialect).sums(query) })
        }
    }

    private func page(_ query: RowQuery) throws -> RowPage {
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

    /// Counts rows, or takes PostgreSQL's estimate of a table that is of one zone.
    func count(_ table: SyncedTable, where filter: RowFilter?, max: Int, estimates: Bool) throws -> RowEstimate {
        let dialect = try dialect(RowQuery(table, where: filter, limit: max))
        let statement = try RowSQL.count(table, where: filter, max: max, in: dialect)
        let counted = try bounded(dialect) {
            Int(try pg.rows(statement.sql, [zone] + statement.arguments)[0].integer(0) ?? 0)
        }
        guard estimates, counted > max else { return .about(counted) }
        guard let stored = served.tables[table.name] else { return .atLeast(max) }
        let isShared = try stored.zoneColumn != nil && pg.integer("SELECT count(*) FROM tidemark.zone") != 1
        guard !isShared else { return .atLeast(max) }
        let estimate = try pg.integer(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass($1)", [stored.name])
        guard let estimate, estimate > max else { return .atLeast(max) }
        return .about(Int(estimate))
    }

    func dialect(_ query: RowQuery) throws -> PostgresDialect {
        guard let table = served.tables[query.table.name] else { throw TablesAltered() }
        return PostgresDialect(table: table, query: query, adopted: adopted)
    }

    /// Translates the errors that a question can cause.
    func bounded<Result>(_ dialect: PostgresDialect, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let failure as PostgresFailure where failure.state == "57014" {
            throw TidemarkError.queryTooCostly(dialect.table.table, index: dialect.indexSQL)
        } catch let failure as PostgresFailure where failure.state.hasPrefix("22") {
            throw TidemarkError(
                dialect.query.keys == nil ? .invalidValue : .invalidKey,
                "A value in the query cannot be read as its column's type in PostgreSQL (SQLSTATE \(failure.state)).",
                fix: "Compare the column with values of its type.", place: .init(table: dialect.table.table.name))
        }
    }
}

extension PostgresTransaction {
    /// - Throws: ``Overtaken`` if another program committed an unabsorbed change of a row whose columns are wanted.
    func tableRows(_ question: TableQuestion) throws -> TableAnswer {
        let tables = TableReader(pg: pg, served: served, zone: zone, adopted: try head().adopted)
        switch question {
        case .page(let query):
            // A key that its column cannot read fails this request alone.
            let answer = try undoable { try tables.answer(question) }.get()
            guard let place = schema.places[query.table.name], !query.columns.isEmpty else { return answer }
            _ = try revisions(of: answer.page.rows.map { RecordID(table: place, key: $0.key) })
            return answer
        case .sums(let query):
            let reading = ReadFingerprints(
                pg: pg, zone: zone, dialect: try tables.dialect(RowQuery(query.table, limit: 0, bytesMax: 0)))
            return try TableAnswer(
                query.ranges.count == 1 ? pg.scanning { try reading.sums(query) } : reading.sums(query))
        }
    }
}
