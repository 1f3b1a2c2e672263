package import GRDB
import GRDBSQLite
package import TidemarkCore

/// The captured changes of a zone, reduced to one effect a record.
///
/// A changed key is a deletion and a creation; ``TidemarkCore/CapturedPath`` reduces the changes of a record.
package struct CapturedEffects {
    private let db: Database
    private let schema: SyncSchema
    private let found = Found()

    /// The tables in which the last reading found captured changes.
    private final class Found { var tables: [SyncedTable] = [] }

    /// Makes them of a prepared connection, on which no other statement runs.
    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Passes on each record's effect: tables in the schema's order, records that changed once first.
    ///
    /// - Returns: Whether anything was captured.
    /// - Throws: `DatabaseError`, or the error of `body`.
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
    package func delete() throws {
        for table in found.tables {
            try db.cachedStatement(sql: "DELETE FROM \(SQLText.name(CaptureTables.shadow(table)))").execute()
        }
        try db.cachedStatement(sql: "DELETE FROM tidemark_capture").execute()
    }

    /// Counts the captured changes by table, also of rows that were evicted without a trigger; nil without any.
    private func counts() throws -> [String: Int]? {
        guard let counts = try countsByTable() else { return nil }
        let tables = counts.keys.compactMap { schema.byName[$0] }
        return try CaptureTables.captureLeftoverEvictions(of: tables, in: db) ? try countsByTable() : counts
    }

    private func countsByTable() throws -> [String: Int]? {
        var counts: [String: Int] = [:]
        try RowValues.read("SELECT tbl, count(*) FROM tidemark_capture GROUP BY tbl", in: db) { values in
            guard case .text(let table) = values[0], case .integer(let count) = values[1] else {
                throw TidemarkError.unreadable("The list of captured changes")
            }
            counts[table] = Int(count)
        }
        return counts.isEmpty ? nil : counts
    }

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
            SELECT kind, \(columns.joined(separator: ", "))
            FROM \(SQLText.name(CaptureTables.shadow(table)))
            ORDER BY seq
            """,
            in: db
        ) { row in
            let (old, new) = try Self.sides(row, of: table)
            for (key, step) in Self.steps(from: old, to: new, layout) {
                let name = RecordID(table: place, key: key)
                guard repeated.contains(name.key.utf8.hashed) else {
                    if let effect = CapturedPath(from: step.old, to: step.new).effect(on: name) { try body(effect) }
                    continue
                }
                if paths[name] == nil { order.append(name) }
                paths[name, default: CapturedPath()].add(from: step.old, to: step.new)
            }
        }
        for name in order { if let effect = paths[name]?.effect(on: name) { try body(effect) } }
    }

    /// Divides a captured row into the old and the new one.
    private static func sides(_ values: [Value], of table: SyncedTable) throws -> (old: [Value]?, new: [Value]?) {
        let count = table.columns.count
        let old = Array(values[1...count])
        let new = Array(values[(count + 1)...])
        switch values[0] {
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

    /// Returns the hashes of the keys that captured changes of a table name more than once.
    ///
    /// Two keys of one hash count as one: then both stay in memory until the end, which does no harm.
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
            "SELECT kind, \(columns.joined(separator: ", ")) FROM \(SQLText.name(CaptureTables.shadow(table)))",
            in: db
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

extension String.UTF8View {
    /// A hash of the bytes.
    fileprivate var hashed: Int {
        var hasher = Hasher()
        for byte in self { hasher.combine(byte) }
        return hasher.finalize()
    }
}
