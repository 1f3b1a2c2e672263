import GRDB
import TidemarkCore
import TidemarkSQL

/// The records that staged change sets change and refer to.
struct PlanRecords: Sendable {
    /// A record as a change set names it.
    struct Name: Hashable, Sendable {
        let table: String
        /// The key; the number of its request precedes a temporary one.
        let key: String
    }

    /// The changes of one change set.
    struct Changes: Sendable {
        var records: [(name: Name, operation: TidemarkCore.Operation, movesUnique: Bool)] = []
        /// The number of records that it creates under temporary ids, by table.
        var temporaryCreations: [String: Int] = [:]
        /// The records that it refers to by integer keys.
        var references: [Name] = []
    }

    /// The changes by the number of the change set.
    private(set) var changes: [Int: Changes] = [:]
    /// The highest permanent ids that change sets refer to or create, by number and table.
    private(set) var highestIds: [Int: [String: Int64]] = [:]
    /// The requests that name temporary ids of earlier change sets.
    private(set) var requestsWithOlderIds: Set<Int> = []

    /// Makes an empty value.
    init() {}

    /// Reads the staged change sets.
    init(_ tables: PlanTables, in db: Database) throws {
        let uniqueUpdates = try Self.uniqueUpdates(tables, in: db)
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT ord, tbl, operation, key, rec
                    FROM temp.tidemark_staged
                    ORDER BY ord, rec
                    """
            )
        )
        var creations: [Name] = []
        var temporaryNames: [(list: Int, name: Name)] = []
        while let row = try rows.next() {
            let ord: Int = try row.value(0)
            let (name, isTemporary) = try tables.name(row.value(1), key: row.value(3), ord)
            let operation = try TidemarkCore.Operation(rawValue: row.value(2)) ?? .update
            let movesUnique = try operation != .update || uniqueUpdates.contains(row.value(4))
            changes[ord, default: Changes()].records.append((name, operation, movesUnique))
            if operation == .create {
                if isTemporary {
                    creations.append(name)
                    changes[ord, default: Changes()].temporaryCreations[name.table, default: 0] += 1
                } else if let id = Int64(name.key), tables.hasIntegerKey(name.table) {
                    raiseHighestId(to: id, in: name.table, of: ord)
                }
            } else if isTemporary {
                temporaryNames.append((ChangeSetStaging.list(of: ord), name))
            }
        }
        try readReferences(tables, in: db) { temporaryNames.append($0) }
        requestsWithOlderIds = try StagedRequest.requestsWithStrays(in: db)
        guard !temporaryNames.isEmpty else { return }
        let ownCreations = Set(creations)
        for (list, name) in temporaryNames where !ownCreations.contains(name) { requestsWithOlderIds.insert(list) }
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
                    SELECT staged.ord, reference.parent, cell.value
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell USING (rec)
                    JOIN temp.tidemark_reference AS reference
                        ON reference.tbl = staged.tbl AND reference.col = cell.col
                    WHERE typeof(cell.value) = 'integer'
                    """
            )
        )
        while let row = try rows.next() {
            let ord: Int = try row.value(0)
            let table: String = try row.value(1)
            let id: Int64 = try row.value(2)
            let (name, isTemporary) = tables.name(table, key: "\(id)", ord)
            changes[ord, default: Changes()].references.append(name)
            if isTemporary {
                temporary((ChangeSetStaging.list(of: ord), name))
            } else {
                raiseHighestId(to: id, in: table, of: ord)
            }
        }
    }

    private mutating func raiseHighestId(to id: Int64, in table: String, of ord: Int) {
        let highestId = highestIds[ord, default: [:]][table] ?? 0
        highestIds[ord, default: [:]][table] = max(highestId, id)
    }

    /// Returns the numbers of the staged updates that set a unique column.
    private static func uniqueUpdates(_ tables: PlanTables, in db: Database) throws -> Set<Int> {
        var updates: Set<Int> = []
        for (table, columns) in tables.uniques {
            let names = columns.map { $0.sorted().map { SQLText.literal($0) } }
            let isUnique = names.map { "cell.col IN (\($0.joined(separator: ", ")))" } ?? "true"
            updates.formUnion(
                try Int.fetchSet(
                    db.cachedStatement(
                        sql: """
                            SELECT staged.rec
                            FROM temp.tidemark_staged AS staged
                            JOIN temp.tidemark_staged_cell AS cell USING (rec)
                            WHERE staged.tbl = ? AND staged.operation = 'update' AND \(isUnique)
                            """
                    ),
                    arguments: [table]
                )
            )
        }
        return updates
    }
}
