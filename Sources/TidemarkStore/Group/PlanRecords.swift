import GRDB
import TidemarkCore
import TidemarkSQLite

/// What the staged change sets of a run of requests do to which records, and to which they refer.
struct PlanRecords: Sendable {
    /// A record as a change set names it.
    struct Name: Hashable, Sendable {
        let table: String
        /// The key; a temporary one with the request whose it is.
        let key: String
    }

    /// What one change set does.
    struct Changes: Sendable {
        var records: [(name: Name, operation: TidemarkCore.Operation, movesUnique: Bool)] = []
        /// The records that it refers to by integer keys.
        var references: [Name] = []
    }

    /// By the number of a change set.
    private(set) var changes: [Int: Changes] = [:]
    /// The highest permanent ids that change sets refer to, by number and table.
    private(set) var highest: [Int: [String: Int64]] = [:]
    /// By request, the temporary ids that it names without having created them.
    private(set) var unknown: Set<Int> = []

    /// Nothing.
    init() {}

    /// Reads what is staged.
    init(_ tables: PlanTables, in db: Database) throws {
        let moving = try Self.movingUniques(tables, in: db)
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT ord, tbl, operation, key, rec FROM temp.tidemark_staged
                    ORDER BY ord, rec
                    """
            )
        )
        var created: [Name] = []
        var named: [(list: Int, name: Name)] = []
        while let row = try rows.next() {
            let ord: Int = try row.value(0)
            let (name, isTemporary) = try tables.name(row.value(1), key: row.value(3), ord)
            let operation = try TidemarkCore.Operation(rawValue: row.value(2)) ?? .update
            let isMoving = try operation != .update || moving.contains(row.value(4))
            changes[ord, default: Changes()].records.append((name, operation, isMoving))
            if operation == .create {
                if isTemporary { created.append(name) }
            } else if isTemporary {
                named.append((ChangeSetStaging.list(of: ord), name))
            }
        }
        try readReferences(tables, in: db) { named.append($0) }
        guard !named.isEmpty else { return }
        let known = Set(created)
        for (list, name) in named where !known.contains(name) { unknown.insert(list) }
    }

    private mutating func readReferences(
        _ tables: PlanTables,
        in db: Database,
        temporary: ((list: Int, name: Name)) -> Void
    ) throws {
        guard tables.haveReferences else { return }
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, r.parent, c.value FROM temp.tidemark_staged AS s
                        JOIN temp.tidemark_staged_cell AS c USING (rec)
                        JOIN temp.tidemark_reference AS r ON r.tbl = s.tbl AND r.col = c.col
                    WHERE typeof(c.value) = 'integer'
                    """
            )
        )
        while let row = try rows.next() {
            let ord: Int = try row.value(0)
            let table: String = try row.value(1)
            let id: Int64 = try row.value(2)
            let (name, _) = tables.name(table, key: "\(id)", ord)
            changes[ord, default: Changes()].references.append(name)
            if id < 0 {
                temporary((ChangeSetStaging.list(of: ord), name))
            } else {
                let known = highest[ord, default: [:]][table] ?? 0
                highest[ord, default: [:]][table] = max(known, id)
            }
        }
    }

    /// The updates that set a unique column, by the number of the record.
    private static func movingUniques(_ tables: PlanTables, in db: Database) throws -> Set<Int> {
        var moving: Set<Int> = []
        for (table, columns) in tables.uniques {
            let names = columns.map { $0.sorted().map { SQLText.literal($0) } }
            let isUnique = names.map { "c.col IN (\($0.joined(separator: ", ")))" } ?? "true"
            moving.formUnion(
                try Int.fetchSet(
                    db.cachedStatement(
                        sql: """
                            SELECT s.rec FROM temp.tidemark_staged AS s JOIN temp.tidemark_staged_cell AS c USING (rec)
                            WHERE s.tbl = ? AND s.operation = 'update' AND \(isUnique)
                            """
                    ),
                    arguments: [table]
                )
            )
        }
        return moving
    }
}
