package import GRDB
package import TidemarkCore

extension CaptureTables {
    package static func shadow(_ table: SyncedTable) -> String { "tidemark_capture_\(table.name)" }
    /// Returns the name of the table with copies of rows that a `REPLACE` may evict.
    static func evicted(_ table: SyncedTable) -> String { "tidemark_evicted_\(table.name)" }
}

/// A file's captured changes, each record's reduced by ``TidemarkCore/CapturedPath``; a changed key is two effects.
package struct CapturedEffects {
    private let db: Database
    private let schema: SyncSchema
    private let range: ClosedRange<Int64>
    private let found = Found()

    /// The tables in which the last reading found captured changes.
    private final class Found { var tables: [SyncedTable] = [] }

    /// Makes them of a prepared connection, on which no other statement runs; `range` has the numbers of the changes.
    package init(_ db: Database, schema: SyncSchema, in range: ClosedRange<Int64> = Int64.min...Int64.max) {
        self.db = db
        self.schema = schema
        self.range = range
    }

    /// Passes on each record's effect, by the schema's tables, records that changed once first; false without any.
    @discardableResult package func read(_ body: (Effect) throws -> Void) throws -> Bool {
        found.tables = []
        guard let counts = try counts() else { return false }
        found.tables = schema.tables.filter { counts[$0.name] != nil }
        for (place, table) in schema.tables.enumerated() {
            guard let count = counts[table.name], count > 0 else { continue }
            try read(place, count: count, body)
        }
        return true
    }

    /// Deletes the captured changes that the last ``read(_:)`` has found; nothing may be captured in between.
    package func delete() throws { try Self.deleteAll(of: found.tables, in: db) }

    /// Deletes all captured changes, which are of `tables`.
    package static func deleteAll(of tables: [SyncedTable], in db: Database) throws {
        for table in tables {
            try db.cachedStatement(sql: "DELETE FROM \(SQLText.name(CaptureTables.shadow(table)))").execute()
        }
        try db.cachedStatement(sql: "DELETE FROM tidemark_capture").execute()
    }

    /// Counts the captured changes by table, also of rows that were evicted without a trigger; nil without any.
    private func counts() throws -> [String: Int]? {
        guard let counts = try countsByTable() else { return nil }
        let tables = schema.tables.filter { counts[$0.name] != nil }
        return try captureEvictions(of: tables) ? try countsByTable() : counts
    }

    /// Captures the evicted rows of writes that did not finish; returns whether there may have been any.
    private func captureEvictions(of tables: [SyncedTable]) throws -> Bool {
        let notes = tables.map { "EXISTS (SELECT 1 FROM \(SQLText.name(CaptureTables.evicted($0))))" }
        let hasAny = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT \((["false"] + notes).joined(separator: " OR "))"))
        guard hasAny == true else { return false }
        for table in tables {
            let name = SQLText.name(CaptureTables.evicted(table))
            let hasNotes = try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM \(name))"))
            guard hasNotes == true else { continue }
            try db.execute(sql: CaptureTables.triggers(of: table, in: db).captureAllEvicted)
            try db.execute(sql: "DELETE FROM \(name)")
        }
        return true
    }

    private func countsByTable() throws -> [String: Int]? {
        var counts: [String: Int] = [:]
        try RowValues.read(
            "SELECT tbl, count(*) FROM tidemark_capture WHERE seq BETWEEN ? AND ? GROUP BY tbl", bounds, in: db
        ) { values in
            guard case .text(let table) = values[0], case .integer(let count) = values[1] else {
                throw TidemarkError.unreadable("The list of captured changes")
            }
            counts[table] = Int(count)
        }
        return counts.isEmpty ? nil : counts
    }

    private var bounds: [Value] { [.integer(range.lowerBound), .integer(range.upperBound)] }

    // MARK: One table

    private func read(_ place: Int, count: Int, _ body: (Effect) throws -> Void) throws {
        let table = schema.tables[place]
        let layout = schema.layouts[place]
        let columns = ["old_", "new_"].flatMap { side in table.columns.map { SQLText.name(side + $0.name) } }
        // Most records change once, and pass on without staying in memory.
        let repeated = count > 1 ? try repeatedKeys(of: place) : []
        var paths: [RecordID: CapturedPath] = [:]
        var order: [RecordID] = []
        try RowValues.read(
            """
            SELECT seq, kind, \(columns.joined(separator: ", "))
            FROM \(SQLText.name(CaptureTables.shadow(table)))
            WHERE seq BETWEEN ? AND ?
            ORDER BY seq
            """, bounds, in: db
        ) { values in
            guard case .integer(let number) = values[0] else { throw TidemarkError.unreadable("A captured change") }
            let (old, new) = try Self.sides(values, of: table)
            for (key, step) in Self.steps(from: old, to: new, layout) {
                let name = RecordID(table: place, key: key)
                guard repeated.contains(name.key.utf8.hashed) else {
                    let path = CapturedPath(from: step.old, to: step.new, number)
                    if let effect = path.effect(on: name) { try body(effect) }
                    continue
                }
                if paths[name] == nil {
                    order.append(name)
                } else if planted(PlantedBug.capturesFirstEditOnly) {
                    continue
                }
                paths[name, default: CapturedPath()].add(from: step.old, to: step.new, number)
            }
        }
        for name in order { if let effect = paths[name]?.effect(on: name) { try body(effect) } }
    }

    private static func sides(_ values: [Value], of table: SyncedTable) throws -> (old: [Value]?, new: [Value]?) {
        let count = table.columns.count
        let old = Array(values[2..<2 + count])
        let new = Array(values[(2 + count)...])
        switch values[1] {
        case .text("insert"): return (nil, new)
        case .text("update"): return (old, new)
        case .text("delete"): return (old, nil)
        default: throw TidemarkError.unreadable("A captured change")
        }
    }

    /// A captured change: the states that it leaves and enters.
    private typealias Step = (old: [Value]?, new: [Value]?)

    /// Returns the steps of each key; an update that changes the key is a deletion and a creation.
    private static func steps(from old: [Value]?, to new: [Value]?, _ layout: RowLayout) -> [(key: String, step: Step)]
    {
        let oldKey = old.map(layout.key)
        let newKey = new.map(layout.key)
        if let oldKey, let newKey, !oldKey.utf8.elementsEqual(newKey.utf8) {
            return [(oldKey, (old, nil)), (newKey, (nil, new))]
        }
        return (oldKey ?? newKey).map { [($0, (old, new))] } ?? []
    }

    /// Returns the hashes of keys that captured changes name more than once; keys of one hash harmlessly count as one.
    private func repeatedKeys(of place: Int) throws -> Set<Int> {
        let table = schema.tables[place]
        let layout = schema.layouts[place]
        let columns = ["old_", "new_"].flatMap { side in
            layout.keyPlaces.map { SQLText.name(side + table.columns[$0].name) }
        }
        var seen: Set<Int> = []
        var repeated: Set<Int> = []
        let count = table.key.count
        try RowValues.read(
            """
            SELECT kind, \(columns.joined(separator: ", "))
            FROM \(SQLText.name(CaptureTables.shadow(table)))
            WHERE seq BETWEEN ? AND ?
            """, bounds, in: db
        ) { values in
            let old = values[0] == .text("insert") ? nil : Value.key(ofParts: Array(values[1...count]))
            let new = values[0] == .text("delete") ? nil : Value.key(ofParts: Array(values[(count + 1)...]))
            let isMoved = old != nil && new != nil && !(old ?? "").utf8.elementsEqual((new ?? "").utf8)
            for key in isMoved ? [old, new] : [old ?? new] {
                guard let key else { continue }
                let hash = key.utf8.hashed
                if !seen.insert(hash).inserted { repeated.insert(hash) }
            }
        }
        return repeated
    }
}

// MARK: On a device

extension CapturedEffects {
    /// Passes on each record's effect as a device's outbox has it; not one that changed nothing.
    ///
    /// `before` is the record before its first change, `attributes` the changed columns (all columns for a creation),
    /// both as canonical JSON without the key; a column with the policy `add` has the difference between two integers.
    package func readForOutbox(_ body: (Effect, _ before: String?, _ attributes: String?) throws -> Void) throws {
        let adding = addingPlaces
        try read { effect in
            let layout = schema.layouts[effect.table]
            let attributes: String?
            switch (effect.before, effect.after) {
            case (let before?, let after?) where !planted(PlantedBug.sendsWholeRow):
                attributes = layout.changes(from: before, to: after, adding: adding[effect.table])
                if attributes == nil { return }
            case (_, let after): attributes = after.map(layout.object)
            }
            try body(effect, effect.before.map(layout.object), attributes)
        }
    }

    /// The places of each table's columns whose updates are additions: an app writes `SET stock = stock - 2`.
    ///
    /// The first old and the last new value are exact for these changes alone, whatever other change sets wait.
    private var addingPlaces: [Set<Int>] {
        schema.tables.map { table in
            let names = planted(PlantedBug.sendsSumsAsValues) ? [] : schema.addingColumns(of: table.name)
            return Set(table.columns.indices.filter { names.contains(table.columns[$0].name) })
        }
    }

    /// Returns the sequence numbers of all captured changes; nil if there are none.
    package static func pendingRange(in db: Database) throws -> ClosedRange<Int64>? {
        let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT min(seq), max(seq) FROM tidemark_capture"))
        guard let first = try row?.value(0) as Int64?, let last = try row?.value(1) as Int64? else { return nil }
        guard first <= last else { throw TidemarkError.unreadable("The list of captured changes") }
        return first...last
    }

    /// Captures evicted rows, then returns ``pendingRange(in:)``; only while no other statement runs on the connection.
    package static func collectPending(_ schema: SyncSchema, in db: Database) throws -> ClosedRange<Int64>? {
        guard try CapturedEffects(db, schema: schema).counts() != nil else { return nil }
        return try pendingRange(in: db)
    }

    /// Passes on the records of a table that have captured changes, each as it was before the first of them.
    ///
    /// It only reads. A record whose changes lead back to where they began is not among them. After a migration of the
    /// app, the captured rows may lack columns until the file is fitted to it, and so do the records then. `image` is
    /// canonical JSON without the key; nil if the record did not exist.
    package static func readFirstStates(
        of table: SyncedTable, in db: Database, _ body: (_ key: String, _ image: String?) throws -> Void
    ) throws {
        let captured = try String.fetchSet(
            db.cachedStatement(sql: "SELECT name FROM pragma_table_info(?)"), arguments: [CaptureTables.shadow(table)])
        guard table.key.allSatisfy({ captured.contains("old_\($0)") }) else { return }
        let columns = table.columns.filter { captured.contains("old_\($0.name)") }
        let schema = SyncSchema(tables: [table.with(columns: columns, references: [])])
        try CapturedEffects(db, schema: schema).read(0, count: .max) { effect in
            try body(effect.key, effect.before.map(schema.layouts[0].object))
        }
    }
}

extension String.UTF8View {
    fileprivate var hashed: Int {
        var hasher = Hasher()
        for byte in self { hasher.combine(byte) }
        return hasher.finalize()
    }
}
