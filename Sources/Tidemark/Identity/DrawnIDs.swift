import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Places each table's `sqlite_sequence`, so that a plain `INSERT` of any program draws an id of this device.
///
/// The server lends a device ids of its own, which are permanent from the start: ``TidemarkCore/LentIDs``. SQLite draws
/// the id above both the sequence and the highest row. So whenever the engine has the file, it moves the sequence on to
/// the next place above the rows of other devices. Without lent ids, the sequence stands at a random start in the
/// region of temporary ids, so that no leftover temporary id is ever another record's.
struct DrawnIDs {
    let db: Database
    let schema: SyncSchema

    /// Moves the sequences of tables without captured changes; returns the tables for which no ids were asked for yet.
    @discardableResult func settle(newID: () -> UUID) throws -> [String] {
        try skipAdoptedIDs()
        // The drain compares captured ids with where the sequence stood.
        let captured = try String.fetchSet(db, cached: "SELECT DISTINCT tbl FROM tidemark_capture")
        return try schema.tables.filter { $0.isAutoincrement && !captured.contains($0.name) }.filter {
            try !settle($0, newID: newID)
        }.map(\.name)
    }

    /// Moves the sequences of tables whose captured changes are drained.
    func settle(_ tables: [SyncedTable], newID: () -> UUID) throws {
        for table in tables where table.isAutoincrement { _ = try settle(table, newID: newID) }
    }

    /// Stores the ids of an answer, a JSON object of tables; throws if a table's ids are none that a server lends.
    func store(_ lent: String) throws {
        let rows = try Row.fetchAll(
            db, cached: "SELECT key AS tbl, type, value AS ids FROM json_each(?)", arguments: [lent])
        for row in rows {
            let table: String = try row.value("tbl")
            guard try row.value("type") == "array", let ids = try Self.decode(row.value("ids")) else {
                throw Answer.inapplicable("It lends ids in an unknown form.", place: .init(table: table))
            }
            let list = ids.map { "[\($0.first),\($0.last),\($0.stride),\($0.width)]" }.joined(separator: ",")
            try db.execute(
                cached: """
                    INSERT INTO tidemark_lent (tbl, ids) VALUES (?, ?)
                    ON CONFLICT (tbl) DO UPDATE SET ids = excluded.ids
                    """, arguments: [table, "[\(list)]"])
        }
    }

    // MARK: Drawing without SQLite

    /// Ids that follow each other in the places of ``TidemarkCore/LentIDs``.
    ///
    /// The id of a record follows from its number among those that get ids: ``idSQL``.
    struct Run {
        /// The number of the first record.
        let start: Int
        let count: Int
        /// The first id of the first place.
        let first: Int64
        let stride: Int64
        let width: Int64
        /// How many ids of the places are below the first record's id.
        let ordinal: Int64
        /// The columns of the JSON array `run.value` in SQL.
        var json: String { "[\(start),\(start + count - 1),\(first),\(stride),\(width),\(ordinal)]" }

        /// The id of a record in the run `run.value`, whose number is in the column `number`.
        static func idSQL(number: String) -> String {
            let ordinal = "(run.value ->> 5 + \(number) - (run.value ->> 0))"
            let place = "\(ordinal) / (run.value ->> 4) * (run.value ->> 3)"
            return "run.value ->> 2 + \(place) + \(ordinal) % (run.value ->> 4)"
        }
    }

    /// Takes the table's next ids, from the places of this device only; where no lent ids are left, temporary ones.
    func take(_ count: Int, of table: SyncedTable) throws -> [Run] {
        var runs: [Run] = []
        var missing: Int64 { Int64(count) - Int64(runs.reduce(0) { $0 + $1.count }) }
        if table.isAutoincrement {
            let state = try state(of: table)
            var least = max(state.highest, state.used, state.sequence ?? 0) + 1
            for lent in state.lent ?? [] {
                guard missing > 0, let next = lent.next(from: least) else { continue }
                let ordinal = lent.ordinal(of: next)
                let taken = min(missing, lent.count - ordinal)
                runs.append(
                    Run(
                        start: count - Int(missing), count: Int(taken), first: lent.first, stride: lent.stride,
                        width: lent.width, ordinal: ordinal))
                let last = ordinal + taken - 1
                least = lent.first + last / lent.width * lent.stride + last % lent.width + 1
            }
            if !runs.isEmpty { try move(table, to: least - 1, used: least - 1, from: state) }
        }
        guard missing > 0 else { return runs }
        let next = try takeTemporary(missing, of: table)
        return runs + [
            Run(start: count - Int(missing), count: Int(missing), first: next, stride: -1, width: 1, ordinal: 0)
        ]
    }

    /// Takes ids below all that records of the table have or had; returns the first, the others are below it.
    private func takeTemporary(_ count: Int64, of table: SyncedTable) throws -> Int64 {
        let key = SQLText.name(table.key[0])
        // The app may have dropped the table.
        let rows = try db.tableExists(table.name) ? "main.\(SQLText.name(table.name))" : "(SELECT 0 AS \(key))"
        let next = try Int64.fetchOne(
            db,
            sql: """
                UPDATE tidemark_temporary SET next = min(next,
                    (SELECT coalesce(min(\(key)), 0) - 1 FROM \(rows)),
                    (SELECT coalesce(min(temporary), 0) - 1 FROM tidemark_idmap WHERE tbl = ?)) - ?
                RETURNING next
                """, arguments: [table.name, count])
        return (next ?? -1 - count) + count
    }

    // MARK: Ids beyond a place

    /// New records whose ids SQLite drew beyond the place of this device, where they may be another's.
    struct Overdrawn {
        let table: SyncedTable
        /// The ids from the end of the place to the last one drawn.
        let ids: ClosedRange<Int64>
        let lent: [LentIDs]

        func condition(_ id: String) -> String {
            let own = lent.map { $0.containsSQL(id) }.joined(separator: " OR ")
            return "\(id) BETWEEN \(ids.lowerBound) AND \(ids.upperBound) AND NOT (\(own))"
        }
    }

    /// Returns the captured records of a table that SQLite numbered beyond the place; nil if there are none.
    ///
    /// One statement may insert more rows than a place has ids. SQLite then draws on: the next ids, with
    /// gaps where an `INSERT OR IGNORE` used some up. An id far from the others is one that a program chose.
    func overdrawn(_ table: SyncedTable) throws -> Overdrawn? {
        guard table.isAutoincrement else { return nil }
        let state = try state(of: table)
        let next = state.used + 1
        guard let ids = state.lent, let sequence = state.sequence,
            let place = ids.first(where: { $0.contains(next) }), sequence > place.end(of: next)
        else { return nil }
        let last = try Int64.fetchOne(
            db,
            cached: """
                WITH drawn (id) AS (
                    SELECT DISTINCT \(SQLText.name("new_" + table.key[0]))
                    FROM \(SQLText.name(CaptureTables.shadow(table)))
                    WHERE kind = 'insert' AND \(SQLText.name("new_" + table.key[0])) > ?1
                ), step (id, length) AS (
                    SELECT id, id - lag(id, 1, ?1) OVER (ORDER BY id) FROM drawn
                )
                SELECT max(id) FROM drawn
                WHERE id < coalesce((SELECT min(id) FROM step WHERE length > ?2), \(TemporaryID.reservedMin))
                """, arguments: [state.used, max(1, place.width / 4)])
        let end = place.end(of: next)
        guard let last, last > end else { return nil }
        return Overdrawn(table: table, ids: end + 1...last, lent: ids)
    }

    /// Whether the server has lent ids of all tables in which SQLite draws them, or has none to lend.
    static func hasAsked(for tables: [SyncedTable], in db: Database) throws -> Bool {
        let namesWithIDs = try String.fetchSet(db, sql: "SELECT tbl FROM tidemark_lent WHERE ids IS NOT NULL")
        return namesWithIDs.isSuperset(of: tables.filter(\.isAutoincrement).map(\.name))
    }

    /// Whether a plain `INSERT` into a table draws a permanent id.
    static func drawsPermanentIDs(_ table: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            cached: """
                SELECT seq < \(TemporaryID.reservedMin - 1)
                FROM sqlite_sequence
                WHERE name = ? AND EXISTS (SELECT 1 FROM tidemark_lent WHERE tbl = ? AND ids <> '[]')
                """, arguments: [table, table]) ?? false
    }

    /// Whether the device may have drawn an id that it was lent; without AUTOINCREMENT, SQLite may have drawn any id.
    static func wasDrawn(_ id: Int64, from table: SyncedTable, in db: Database) throws -> Bool {
        guard table.isAutoincrement else { return true }
        let row = try Row.fetchOne(
            db, sql: "SELECT coalesce(ids, '[]') AS ids, former, used FROM tidemark_lent WHERE tbl = ?",
            arguments: [table.name])
        guard let row, try id <= row.value("used") else { return false }
        let lent = try [decode(row.value("ids")), decode(row.value("former"))]
        return lent.contains { $0?.contains { $0.contains(id) } ?? false }
    }

    /// Whether a drawn temporary id is above the table's sequence, which stands among other ids by now.
    ///
    /// A row under that id makes SQLite draw the ids after it next. Other records may have had these.
    static func hasLeft(_ id: Int64, in table: SyncedTable, _ db: Database) throws -> Bool {
        guard table.isAutoincrement, id >= TemporaryID.reservedMin, !planted(PlantedBug.drawsFormerIDs) else {
            return false
        }
        let sequence = try Int64.fetchOne(
            db, cached: "SELECT seq FROM sqlite_sequence WHERE name = ?", arguments: [table.name])
        return sequence ?? 0 < id
    }

    /// Forgets the lent ids, which another file or history has as well, and begins temporary ids anew.
    static func startAnew(newID: () -> UUID, in db: Database) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_lent SET ids = NULL, former = (
                    SELECT json_group_array(json(value))
                    FROM (
                        SELECT value FROM json_each(tidemark_lent.former)
                        UNION SELECT value FROM json_each(coalesce(tidemark_lent.ids, '[]'))))
                """)
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM sqlite_sequence WHERE name NOT LIKE 'tidemark~_%' ESCAPE '~' ORDER BY name")
        for name in names {
            try db.execute(
                sql: "UPDATE sqlite_sequence SET seq = ? WHERE name = ?",
                arguments: [temporaryStart(newID(), above: TemporaryID.reservedMin - 1) - 1, name])
        }
    }

    /// Moves the counter of negative temporary ids below the negative ids that the zone adopted.
    private func skipAdoptedIDs() throws {
        guard let lowestID = schema.tables.map(\.lowestID).min(), lowestID < 0 else { return }
        try db.execute(sql: "UPDATE tidemark_temporary SET next = ?1 WHERE next > ?1", arguments: [lowestID - 1])
    }

    /// The state that decides a table's next id.
    private struct State {
        /// The lent ids; nil if the device has not asked for any.
        let lent: [LentIDs]?
        let used: Int64
        let sequence: Int64?
        let highest: Int64
    }

    private func state(of table: SyncedTable) throws -> State {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT lent.ids, coalesce(lent.used, -1) AS used,
                    (SELECT seq FROM sqlite_sequence WHERE name = ?1) AS seq,
                    (SELECT max(\(SQLText.name(table.key[0]))) FROM main.\(SQLText.name(table.name))) AS top
                FROM (SELECT 1)
                LEFT JOIN tidemark_lent AS lent ON lent.tbl = ?1
                """, arguments: [table.name])
        return try State(
            lent: (row?.value("ids") as String?).flatMap(Self.decode),
            used: row?.value("used") ?? -1, sequence: row?.value("seq"),
            highest: max(0, row?.value("top") as Int64? ?? 0))
    }

    /// Moves a table's sequence to where it has to stand; returns whether the device has asked for ids of the table.
    private func settle(_ table: SyncedTable, newID: () -> UUID) throws -> Bool {
        let state = try state(of: table)
        let ids = state.lent ?? []
        var used = state.used
        if let sequence = state.sequence, ids.contains(where: { $0.contains(sequence) }) { used = max(used, sequence) }
        // Half a place is left for the inserts until the engine has the file again.
        let least = max(state.highest, used) + 1
        let next = ids.lazy.compactMap { $0.next(from: least, room: $0.width / 2) }.first
        if let next {
            try move(table, to: next - 1, used: next - 1, from: state)
            return true
        }
        var wanted = state.sequence ?? 0
        if wanted < TemporaryID.reservedMin - 1 {
            wanted = Self.temporaryStart(newID(), above: max(state.highest, TemporaryID.reservedMin - 1)) - 1
        }
        try move(table, to: max(wanted, state.highest), used: used, from: state)
        return state.lent != nil
    }

    private func move(_ table: SyncedTable, to sequence: Int64, used: Int64, from state: State) throws {
        if used != state.used {
            try db.execute(cached: "UPDATE tidemark_lent SET used = ? WHERE tbl = ?", arguments: [used, table.name])
        }
        guard sequence != state.sequence else { return }
        try db.execute(
            cached: state.sequence == nil
                ? "INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)"
                : "UPDATE sqlite_sequence SET seq = ? WHERE name = ?", arguments: [sequence, table.name])
    }

    /// A random start of temporary ids above an id: room for 2^20 records, and 2^32 starts.
    ///
    /// SQLite draws ids above the highest row. So a start below it would not keep records off the ids after that row,
    /// which others may have had.
    private static func temporaryStart(_ id: UUID, above highest: Int64) -> Int64 {
        let bytes = id.uuid
        let random = [bytes.0, bytes.1, bytes.2, bytes.3].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let first = (highest - TemporaryID.reservedMin) >> 20 + 1
        let starts = max(1, (1 << 32) - first)
        return TemporaryID.reservedMin + (first + random % starts) << 20
    }

    /// Reads a JSON array of lent ids; nil if one has another form.
    private static func decode(_ json: String) -> [LentIDs]? {
        // An answer is refused with it; for a damaged text of the books, the device asks for other ids.
        guard let lists = try? JSONDecoder().decode([[Int64]].self, from: Data(json.utf8)), lists.count <= regionsMax
        else { return nil }
        let ids = lists.compactMap { numbers in
            numbers.count < 4
                ? nil : LentIDs(first: numbers[0], last: numbers[1], stride: numbers[2], width: numbers[3])
        }
        return ids.count == lists.count ? ids : nil
    }

    /// The most regions in which a server lends a table's ids.
    private static let regionsMax = 16
}
