package import GRDB
import GRDBSQLite
package import TidemarkCore

/// The captured changes of a zone, reduced to one effect a record.
///
/// Updates of a record merge, a record created and deleted meanwhile vanishes, and so does an update that changed
/// nothing. A changed key is a deletion and a creation.
///
/// Capture order does not tell which row is first or last. SQLite does not promise the order in which it runs the
/// triggers of an event: if the app's own trigger updates the row again before the capture trigger runs, the inner
/// change is captured before the outer one. But the changes of a record always form a path from state to state. An
/// intermediate state is left as often as it is entered; the first state is left once more, and the last state is
/// entered once more. If all states are balanced, the record did not change.
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

    /// A captured change: the states that it leaves and enters.
    private struct Event {
        let old: [Value]?
        let new: [Value]?
    }

    private func read(_ place: Int, count: Int, _ body: (Effect) throws -> Void) throws {
        let table = schema.tables[place]
        let layout = schema.layouts[place]
        let columns = ["old_", "new_"].flatMap { side in table.columns.map { SQLText.name(side + $0.name) } }
        // Most records change once, and pass on without staying in memory.
        let repeated = count > 1 ? try repeatedKeys(of: place) : []
        var events: [RecordID: [(event: Event, seq: Int)]] = [:]
        var order: [RecordID] = []
        var number = 0
        try RowValues.read(
            """
            SELECT kind, \(columns.joined(separator: ", "))
            FROM \(SQLText.name(CaptureTables.shadow(table)))
            ORDER BY seq
            """,
            in: db
        ) { row in
            number += 1
            let (old, new) = try Self.sides(row, of: table)
            for (key, event) in Self.events(from: old, to: new, layout) {
                let name = RecordID(table: place, key: key)
                guard repeated.contains(name.key.utf8.hashed) else {
                    if let effect = Self.effect(name, from: event.old, to: event.new) { try body(effect) }
                    continue
                }
                if events[name] == nil { order.append(name) }
                events[name, default: []].append((event, number))
            }
        }
        for name in order {
            guard let (first, last) = Self.ends(of: events[name] ?? []) else { continue }
            if let effect = Self.effect(name, from: first, to: last) { try body(effect) }
        }
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

    /// Returns the events of each key; an update that changes the key is a deletion and a creation.
    private static func events(from old: [Value]?, to new: [Value]?, _ layout: RowLayout) -> [(
        key: String, event: Event
    )] {
        let oldKey = old.map(layout.key)
        let newKey = new.map(layout.key)
        if let oldKey, let newKey, !oldKey.utf8.elementsEqual(newKey.utf8) {
            return [(oldKey, Event(old: old, new: nil)), (newKey, Event(old: nil, new: new))]
        }
        return (oldKey ?? newKey).map { [($0, Event(old: old, new: new))] } ?? []
    }

    private static func effect(_ name: RecordID, from before: [Value]?, to after: [Value]?) -> Effect? {
        if let before, let after {
            let isSame = zip(before, after).allSatisfy { $0.isSame(as: $1) }
            if isSame { return nil }
        } else if before == nil, after == nil {
            return nil
        }
        return Effect(table: name.table, key: name.key, before: before, after: after)
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

    /// A state of a record, with the balance of how often it was left and entered.
    private struct State {
        let row: [Value]?
        var balance = 0
        var firstLeft = Int.max
        var lastEntered = Int.min
    }

    /// Returns the first and the last state of a record; nil if it did not change.
    private static func ends(of events: [(event: Event, seq: Int)]) -> (first: [Value]?, last: [Value]?)? {
        guard events.count > 1 else { return events.first.map { ($0.event.old, $0.event.new) } }
        var states: [State] = []
        // Equal rows have one hash, but rows that are equal may differ in bytes.
        var places: [[Value]?: [Int]] = [:]
        func note(_ row: [Value]?, side: Int, seq: Int) {
            let index: Int
            if let place = places[row]?.first(where: { isSame(states[$0].row, row) }) {
                index = place
            } else {
                index = states.count
                states.append(State(row: row))
                places[row, default: []].append(index)
            }
            states[index].balance += side
            if side > 0 { states[index].firstLeft = min(states[index].firstLeft, seq) }
            if side < 0 { states[index].lastEntered = max(states[index].lastEntered, seq) }
        }
        for (event, seq) in events {
            note(event.old, side: 1, seq: seq)
            note(event.new, side: -1, seq: seq)
        }
        let first = states.filter { $0.balance > 0 }.min { $0.firstLeft < $1.firstLeft }
        let last = states.filter { $0.balance < 0 }.max { $0.lastEntered < $1.lastEntered }
        guard let first, let last else { return nil }
        return (first.row, last.row)
    }

    private static func isSame(_ one: [Value]?, _ other: [Value]?) -> Bool {
        switch (one, other) {
        case (nil, nil): true
        case (let one?, let other?): zip(one, other).allSatisfy { $0.isSame(as: $1) }
        default: false
        }
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
