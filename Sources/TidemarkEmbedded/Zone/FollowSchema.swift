import GRDB
import TidemarkCore
import TidemarkSQL

/// Follows schema changes in a zone's file, which any program may make.
///
/// Additions become part of the history, so that devices with an older schema receive them.
///
/// - A new table's rows are captured as created.
/// - A new column's values are captured where they differ from its default. The default itself
///   travels with the schema as the column's fill.
/// - A renamed column keeps its history if the operator declares the rename.
/// - A rebuilt table lost its triggers, so the store cannot know the writes since then. The zone starts a new epoch,
///   and devices take a snapshot. The same holds for a table that was dropped and created again.
struct FollowSchema {
    let db: Database
    let schema: SyncSchema
    let renames: [ColumnRename]

    /// Updates bookkeeping and capture in the caller's transaction, and returns the history of the columns.
    func run(isNew: Bool) throws -> SchemaHistory {
        if isNew { try note(renames) } else { try follow(renames) }
        let previousColumns = try servedColumns()
        let droppedTables = try readDroppedTables()
        let rebuiltTables = try CaptureTables.rebuiltTables(of: schema, in: db).filter { previousColumns[$0] != nil }
        try CaptureTables.install(schema, guardsNewIds: false, in: db)
        for table in schema.tables {
            if let columns = previousColumns[table.name] {
                try add(table, table.columns.filter { !columns.contains($0.name) })
            } else {
                if !isNew { try addRows(of: table, capturing: !droppedTables.contains(table.name)) }
                try db.execute(
                    sql: "DELETE FROM tidemark_served_column WHERE tbl = ? AND col = ''", arguments: [table.name])
                try storeColumns(table.columns.map { ($0.name, nil) }, of: table)
            }
        }
        try recordDrops(previousColumns)
        let uncapturedTables = rebuiltTables + droppedTables.sorted()
        if !isNew { try renewEpoch(uncapturedTables.compactMap { schema.byName[$0] }) }
        return try history()
    }

    /// Reads the columns of the last opening, by table.
    private func servedColumns() throws -> [String: Set<String>] {
        let rows = try Row.fetchAll(db, sql: "SELECT tbl, col FROM tidemark_served_column WHERE now IS NULL")
        return try rows.reduce(into: [:]) { try $0[$1.value("tbl"), default: []].insert($1.value("col") as String) }
    }

    /// Reads the tables that were missing at the last opening.
    private func readDroppedTables() throws -> Set<String> {
        try String.fetchSet(db, sql: "SELECT tbl FROM tidemark_served_column WHERE col = '' AND now = ''")
    }

    private func addRows(of table: SyncedTable, capturing: Bool) throws {
        let problems = try RowValidation(db, schema: SyncSchema(tables: [table])).problems()
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        if capturing { try CaptureRows.captureAsCreated(table, in: db) }
    }

    private func add(_ table: SyncedTable, _ columns: [SyncedTable.Column]) throws {
        guard !columns.isEmpty else { return }
        try refuseFormerNames(columns, of: table)
        let fills = try columns.map { ($0.name, try DefaultValue.json($0, in: db)) }
        for (column, value) in fills { try CaptureTables.fill(column, value, of: table, in: db) }
        let before = fills.map { ($0, "tidemark_decode(\(SQLText.literal($1)))") }
        try CaptureAddedColumns(table, before: Dictionary(uniqueKeysWithValues: before)).run(db)
        try storeColumns(fills, of: table)
    }

    private func refuseFormerNames(_ columns: [SyncedTable.Column], of table: SyncedTable) throws {
        let rows = try Row.fetchAll(
            db, sql: "SELECT col, now FROM tidemark_served_column WHERE tbl = ? AND now <> ''", arguments: [table.name])
        let currentNames = try rows.reduce(into: [String: String]()) {
            try $0[$1.value("col") as String] = $1.value("now") as String
        }
        let problems = columns.compactMap { column -> SchemaProblem? in
            guard let now = currentNames[column.name], table.columns.contains(where: { $0.name == now }) else {
                return nil
            }
            return .formerName(column.name, of: now, in: table.name)
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
    }

    private func storeColumns(_ columns: [(String, String?)], of table: SyncedTable) throws {
        for (column, fill) in columns {
            try db.execute(
                sql: "INSERT OR REPLACE INTO tidemark_served_column (tbl, col, fill) VALUES (?, ?, ?)",
                arguments: [table.name, column, fill])
        }
    }

    /// Records the former names in a new zone, for devices whose app has them.
    private func note(_ renames: [ColumnRename]) throws {
        for rename in renames {
            let columns = Set(schema.byName[rename.table]?.columns.map(\.name) ?? [])
            guard columns.contains(rename.new), !columns.contains(rename.old) else { continue }
            try db.execute(
                sql: "INSERT OR IGNORE INTO tidemark_served_column (tbl, col, now) VALUES (?, ?, ?)",
                arguments: [rename.table, rename.old, rename.new])
        }
    }

    private func follow(_ renames: [ColumnRename]) throws {
        let previousColumns = try servedColumns()
        for rename in renames {
            let columns = Set(schema.byName[rename.table]?.columns.map(\.name) ?? [])
            let new = latest(rename, columns)
            // The column has its former name again.
            if new == rename.old, columns.contains(new) { continue }
            guard let table = schema.byName[rename.table], columns.contains(new), !columns.contains(rename.old) else {
                throw TidemarkError(
                    .invalidArgument, "\(rename.table).\(rename.old) was not renamed to \(rename.new) in this file.",
                    fix: "Rename it first: ALTER TABLE \(rename.table) RENAME COLUMN \(rename.old) TO \(rename.new).",
                    place: .init(table: rename.table, column: rename.old))
            }
            try CaptureTables.rename([rename.old: new], of: table, in: db)
            // Before its declaration, the rename looked like a dropped column.
            try db.execute(
                sql: "UPDATE tidemark_served_column SET now = ? WHERE tbl = ? AND col = ? AND now = ''",
                arguments: [new, rename.table, rename.old])
            try ZonePolicies.rename(rename.old, to: new, of: rename.table, in: db)
            guard previousColumns[rename.table]?.contains(rename.old) == true else {
                try note([ColumnRename(table: rename.table, old: rename.old, new: new)])
                continue
            }
            try db.execute(
                sql: """
                    UPDATE OR REPLACE tidemark_served_column
                    SET col = :new
                    WHERE tbl = :tbl AND col = :old AND now IS NULL;
                    UPDATE tidemark_served_column
                    SET now = :new
                    WHERE tbl = :tbl AND now = :old;
                    INSERT INTO tidemark_served_column (tbl, col, now)
                    VALUES (:tbl, :old, :new);
                    UPDATE tidemark_log
                    SET columns = (
                        SELECT json_group_array(CASE value WHEN :old THEN :new ELSE value END)
                        FROM json_each(tidemark_log.columns))
                    WHERE tbl = :tbl AND columns IS NOT NULL;
                    UPDATE tidemark_log
                    SET replaced = replace(
                        replace(replaced, '{' || :oldMember, '{' || :newMember), ',' || :oldMember, ',' || :newMember)
                    WHERE tbl = :tbl AND replaced IS NOT NULL;
                    """,
                arguments: [
                    "tbl": rename.table, "old": rename.old, "new": new,
                    // Within a text, the quotes would be escaped.
                    "oldMember": "\(JSONText.quote(WireName.member(column: rename.old))):",
                    "newMember": "\(JSONText.quote(WireName.member(column: new))):",
                ])
        }
    }

    /// Returns the column's current name, following later renames.
    private func latest(_ rename: ColumnRename, _ columns: Set<String>) -> String {
        var name = rename.new
        var visitedNames = Set([rename.old])
        while !columns.contains(name), visitedNames.insert(name).inserted,
            let next = renames.first(where: { $0.table == rename.table && $0.old == name })
        { name = next.new }
        return name
    }

    /// Records the tables and columns that were dropped since the last opening.
    private func recordDrops(_ previousColumns: [String: Set<String>]) throws {
        for (name, columns) in previousColumns.sorted(by: { $0.key < $1.key }) {
            let present = Set(schema.byName[name]?.columns.map(\.name) ?? [])
            for column in columns.subtracting(present).sorted() { try drop(name, column) }
            if present.isEmpty {
                try CaptureTables.forget(name, in: db)
                try db.execute(sql: "DELETE FROM tidemark_served_column WHERE tbl = ?", arguments: [name])
                try drop(name, "")
            }
        }
    }

    /// Records that a column with all its names was dropped; the empty name stands for the table.
    private func drop(_ table: String, _ column: String) throws {
        try db.execute(
            sql: "UPDATE tidemark_served_column SET now = '' WHERE tbl = ? AND now = ?", arguments: [table, column])
        try db.execute(
            sql: "INSERT OR REPLACE INTO tidemark_served_column (tbl, col, now) VALUES (?, ?, '')",
            arguments: [table, column])
    }

    /// After uncaptured changes, begins a history: a hash of the old one and the rows, so equal files get equal epochs.
    private func renewEpoch(_ uncapturedTables: [SyncedTable]) throws {
        guard !uncapturedTables.isEmpty else { return }
        let zone = try Row.fetchOne(db, sql: "SELECT epoch, revision FROM tidemark_zone")
        let epoch: String = try zone?.value("epoch") ?? ""
        let revision: Int64 = try zone?.value("revision") ?? 0
        let digestSchema = SyncSchema(tables: uncapturedTables)
        let rows = try Digest.compute(db, schema: digestSchema, zone: epoch, revision: revision).hash
        let hex = ContentHash.of("\(epoch) \(revision) \(rows)").utf8.prefix(32)
        var text = String(decoding: hex, as: UTF8.self)
        for offset in [20, 16, 12, 8] { text.insert("-", at: text.index(text.startIndex, offsetBy: offset)) }
        // The lineage keeps the old epoch, because the log still has its revisions.
        try db.execute(sql: "INSERT OR REPLACE INTO tidemark_lineage SELECT epoch, revision FROM tidemark_zone")
        try db.execute(sql: "UPDATE tidemark_zone SET epoch = ?", arguments: [text])
        // The stored fingerprints do not match the changed rows.
        try db.execute(sql: "DELETE FROM tidemark_fingerprint")
    }

    private func history() throws -> SchemaHistory {
        var history = SchemaHistory()
        for row in try Row.fetchAll(db, sql: "SELECT tbl, col, fill, now FROM tidemark_served_column ORDER BY tbl, col")
        {
            let table: String = try row.value("tbl")
            let column: String = try row.value("col")
            if let fill = try row.value("fill") as String? { history.fills[table, default: [:]][column] = fill }
            guard let now = try row.value("now") as String? else { continue }
            if column.isEmpty {
                history.droppedTables.append(table)
            } else if now.isEmpty {
                history.droppedColumns[table, default: []].append(column)
            } else {
                history.renames[table, default: [:]][column] = now
            }
        }
        return history
    }
}
