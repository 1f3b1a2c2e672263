import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Places each table's `sqlite_sequence`, so that a plain `INSERT` of any program draws an id of this device.
///
/// The server lends a device ids of its own, which are permanent from the start: ``TidemarkCore/LentIDs``.
/// SQLite draws the id above both the sequence and the highest row. So whenever the engine has the file, it
/// moves the sequence on to the next place above the rows of other devices. Without lent ids, the sequence
/// stands at a random start in the region of temporary ids, so that no leftover temporary id is ever
/// another record's.
///
/// | column of `tidemark_lent` | contents |
/// | --- | --- |
/// | `ids` | the lent ids, a JSON array of arrays of first, last, stride and width; NULL: not asked for yet |
/// | `used` | the highest id that the device may have drawn from them |
/// | `former` | lent ids of a former identity or history; the device draws none of them |
struct DrawnIDs {
    let db: Database
    let schema: SyncSchema

    /// Moves the sequences of all tables where they have to stand.
    ///
    /// - Parameter newID: Makes the random start of temporary ids.
    /// - Returns: The tables for which the device has not asked the server to lend ids.
    /// - Throws: `DatabaseError`.
    @discardableResult func settle(newID: () -> UUID) throws -> [String] {
        try skipAdoptedIDs()
        return try schema.tables.filter(\.isAutoincrement).filter { try !settle($0, newID: newID) }.map(\.name)
    }

    /// Stores the ids of an answer, a JSON object of tables.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if a table's ids are none that a server lends.
    func store(_ lent: String) throws {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT key AS tbl, type, value AS ids FROM json_each(?)"),
            arguments: [lent]
        )
        for row in rows {
            let table: String = try row.value("tbl")
            let ids = try row.value("type") == "array" ? Self.decode(row.value("ids"), in: db) : nil
            guard let ids else {
                throw AnswerCheck.inapplicable("It lends ids in an unknown form.", place: .init(table: table))
            }
            let list = ids.map { "[\($0.first),\($0.last),\($0.stride),\($0.width)]" }.joined(separator: ",")
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_lent (tbl, ids) VALUES (?, ?)
                    ON CONFLICT (tbl) DO UPDATE SET ids = excluded.ids
                    """
            ).execute(arguments: [table, "[\(list)]"])
        }
    }

    /// Returns the table's next ids, which a plain `INSERT` would draw.
    static func next(_ count: Int, of table: SyncedTable, in db: Database) throws -> [Int64] {
        guard table.isAutoincrement else { return try (0..<count).map { _ in try TemporaryIDs.next(db) } }
        let last =
            try Int64.fetchOne(
                db,
                sql: """
                    SELECT max(
                        coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0),
                        coalesce((SELECT max(\(SQLText.name(table.key[0]))) FROM main.\(SQLText.name(table.name))), 0))
                    """,
                arguments: [table.name]
            ) ?? 0
        return (1...max(1, count)).prefix(count).map { last + Int64($0) }
    }

    /// Whether a plain `INSERT` into a table draws a permanent id.
    static func drawsPermanentIDs(_ table: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT seq < \(TemporaryID.reservedMin - 1)
                    FROM sqlite_sequence
                    WHERE name = ? AND EXISTS (SELECT 1 FROM tidemark_lent WHERE tbl = ? AND ids <> '[]')
                    """
            ),
            arguments: [table, table]
        ) ?? false
    }

    /// Whether the device may have drawn an id from ids that it was lent, now or formerly.
    ///
    /// Without AUTOINCREMENT a plain `INSERT` draws the id above the highest row, which any device may have.
    static func wasDrawn(_ id: Int64, from table: SyncedTable, in db: Database) throws -> Bool {
        guard table.isAutoincrement else { return true }
        let row = try Row.fetchOne(
            db,
            sql: "SELECT coalesce(ids, '[]') AS ids, former, used FROM tidemark_lent WHERE tbl = ?",
            arguments: [table.name]
        )
        guard let row, try id <= row.value("used") else { return false }
        let lent = try [decode(row.value("ids"), in: db), decode(row.value("former"), in: db)]
        return lent.contains { $0?.contains { $0.contains(id) } ?? false }
    }

    /// Forgets the lent ids, which another file has as well or which belong to another history.
    ///
    /// Temporary ids then begin anew, too, because the other file has the same sequence.
    static func startAnew(newID: () -> UUID, in db: Database) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_lent SET ids = NULL, former = (
                    SELECT json_group_array(json(value))
                    FROM (
                        SELECT value FROM json_each(tidemark_lent.former)
                        UNION SELECT value FROM json_each(coalesce(tidemark_lent.ids, '[]'))))
                """
        )
        let names = try String.fetchAll(
            db,
            sql: "SELECT name FROM sqlite_sequence WHERE name NOT LIKE 'tidemark~_%' ESCAPE '~' ORDER BY name"
        )
        for name in names {
            try db.execute(
                sql: "UPDATE sqlite_sequence SET seq = ? WHERE name = ?",
                arguments: [temporaryStart(newID()) - 1, name]
            )
        }
    }

    // MARK: Private

    /// Moves the counter of negative temporary ids below the negative ids that the zone adopted.
    private func skipAdoptedIDs() throws {
        guard let lowestID = schema.tables.map(\.lowestID).min(), lowestID < 0 else { return }
        try db.execute(sql: "UPDATE tidemark_temporary SET next = ?1 WHERE next > ?1", arguments: [lowestID - 1])
    }

    /// Moves a table's sequence.
    ///
    /// - Returns: Whether the device has asked for ids of the table.
    private func settle(_ table: SyncedTable, newID: () -> UUID) throws -> Bool {
        let (lent, used) = try lent(table.name)
        let ids = lent ?? []
        let key = SQLText.name(table.key[0])
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT seq FROM sqlite_sequence WHERE name = ?) AS seq,
                        (SELECT max(\(key)) FROM main.\(SQLText.name(table.name))) AS top
                    """
            ),
            arguments: [table.name]
        )
        let sequence = try row?.value("seq") as Int64?
        let highest = max(0, try row?.value("top") as Int64? ?? 0)
        var usedNow = used
        if let sequence, ids.contains(where: { $0.contains(sequence) }) { usedNow = max(used, sequence) }
        if usedNow != used {
            try db.cachedStatement(sql: "UPDATE tidemark_lent SET used = ? WHERE tbl = ?").execute(arguments: [
                usedNow, table.name,
            ])
        }
        let wanted = Self.sequence(ids, highest: highest, used: usedNow, now: sequence, newID: newID)
        guard wanted != sequence else { return lent != nil }
        try db.cachedStatement(
            sql: sequence == nil
                ? "INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)"
                : "UPDATE sqlite_sequence SET seq = ? WHERE name = ?"
        ).execute(arguments: [wanted, table.name])
        return lent != nil
    }

    /// Returns the lent ids of a table, and the highest one that the device may have drawn.
    private func lent(_ table: String) throws -> (ids: [LentIDs]?, used: Int64) {
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT ids, used FROM tidemark_lent WHERE tbl = ?"),
            arguments: [table]
        )
        guard let row else { return (nil, -1) }
        return (try (row.value("ids") as String?).flatMap { try Self.decode($0, in: db) }, try row.value("used"))
    }

    /// Returns where a sequence has to stand.
    ///
    /// Half a place is left for the inserts until the engine has the file again.
    private static func sequence(
        _ ids: [LentIDs],
        highest: Int64,
        used: Int64,
        now: Int64?,
        newID: () -> UUID
    ) -> Int64 {
        let least = max(highest, used) + 1
        for lent in ids { if let next = lent.next(from: least, room: lent.width / 2) { return next - 1 } }
        let isTemporary = now.map { $0 >= TemporaryID.reservedMin - 1 } ?? false
        return isTemporary ? max(now ?? 0, highest) : max(temporaryStart(newID()) - 1, highest)
    }

    /// A random start of temporary ids: room for 2^20 records, and 2^32 starts.
    private static func temporaryStart(_ id: UUID) -> Int64 {
        let bytes = id.uuid
        let random = [bytes.0, bytes.1, bytes.2, bytes.3].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        return TemporaryID.reservedMin + random << 20
    }

    /// Reads a JSON array of lent ids; nil if one has another form.
    private static func decode(_ json: String, in db: Database) throws -> [LentIDs]? {
        guard json != "[]" else { return [] }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT value ->> 0 AS first, value ->> 1 AS last, value ->> 2 AS stride, value ->> 3 AS width
                    FROM (SELECT iif(type = 'array', value, '[]') AS value FROM json_each(?) LIMIT \(regionsMax + 1))
                    """
            ),
            arguments: [json]
        )
        let ids = rows.compactMap { row in
            let numbers = ["first", "last", "stride", "width"].compactMap { name -> Int64? in
                guard case .int64(let number) = (row[name] as DatabaseValue).storage else { return nil }
                return number
            }
            return numbers.count < 4
                ? nil : LentIDs(first: numbers[0], last: numbers[1], stride: numbers[2], width: numbers[3])
        }
        return ids.count == rows.count && ids.count <= regionsMax ? ids : nil
    }

    /// The most regions in which a server lends a table's ids.
    private static let regionsMax = 16
}
