import GRDB
import TidemarkCore
import TidemarkTestSupport

/// The dishes that a client keeps, in a file of its own.
final class DishFile {
    private let file: DatabaseQueue
    /// The number of arriving dishes that the client still fails to store.
    private var failing = 0

    /// Opens the file, and makes it if it is not there.
    init(path: String) throws {
        file = try DatabaseQueue(path: path)
        try file.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS dish (
                        id INTEGER PRIMARY KEY, city_id INTEGER NOT NULL, name TEXT NOT NULL,
                        price INTEGER NOT NULL, updated TEXT NOT NULL, number TEXT NOT NULL
                    );
                    CREATE TABLE IF NOT EXISTS place (name TEXT PRIMARY KEY, value TEXT NOT NULL);
                    """)
        }
    }

    /// Fails to store the next dishes, without an error.
    func fail(_ count: Int) { failing = count }

    /// Loses stored dishes.
    func lose(_ count: Int, seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        try file.write { db in
            let ids = try Int.fetchAll(db, sql: "SELECT id FROM dish ORDER BY id").shuffled(using: &generator)
            for id in ids.prefix(count) { try Self.remove(id, in: db) }
        }
    }

    /// Removes the dishes of other cities than those in a list like `1,2`.
    func keep(cities: String) throws {
        try file.write { db in
            try db.execute(
                sql: "DELETE FROM dish WHERE instr(',' || ? || ',', ',' || city_id || ',') = 0", arguments: [cities])
        }
    }

    // MARK: The four rules

    /// Applies dishes that arrived in one answer, in one transaction: stores them, or removes deleted ones.
    func apply(_ dishes: [Dish], gone: [Int] = [], replacing isWhole: Bool = false) throws {
        try file.write { db in
            if isWhole { try db.execute(sql: "DELETE FROM dish") }
            for dish in dishes {
                guard failing == 0 else {
                    failing -= 1
                    continue
                }
                guard dish.is_deleted == 0 else {
                    try Self.remove(dish.id, in: db)
                    continue
                }
                try db.cachedStatement(sql: "INSERT OR REPLACE INTO dish VALUES (?, ?, ?, ?, ?, ?)").execute(
                    arguments: [dish.id, dish.city_id, dish.name, dish.price, dish.updated, dish.number.hex])
            }
            for id in gone { try Self.remove(id, in: db) }
        }
    }

    private static func remove(_ id: Int, in db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM dish WHERE id = ?").execute(arguments: [id])
    }

    // MARK: Reading

    /// A place that the client remembers from one sync to the next.
    subscript(place: String) -> String? {
        get throws {
            try file.read { db in
                try String.fetchOne(db, sql: "SELECT value FROM place WHERE name = ?", arguments: [place])
            }
        }
    }

    /// Remembers a place.
    func remember(_ place: String, _ value: String?) throws {
        try file.write { db in
            try db.execute(sql: "DELETE FROM place WHERE name = ?", arguments: [place])
            if let value { try db.execute(sql: "INSERT INTO place VALUES (?, ?)", arguments: [place, value]) }
        }
    }

    /// A stored dish's id and number.
    struct Entry {
        let id: Int
        let number: Fingerprint
    }

    /// The stored dishes in the order of their keys.
    func entries() throws -> [Entry] {
        try file.read { db in
            try Row.fetchAll(db, sql: "SELECT id, number FROM dish ORDER BY id").map { row in
                Entry(id: row[0], number: Fingerprint(hex: row[1]) ?? .none)
            }
        }
    }

    /// The dishes by their ids.
    func dishes() throws -> [Int: Dish] {
        try file.read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT id, city_id, name, price, updated FROM dish")
            return rows.reduce(into: [:]) { dishes, row in
                dishes[row[0]] = Dish(
                    id: row[0], city_id: row[1], name: row[2], price: row[3], updated: row[4], is_deleted: 0)
            }
        }
    }
}
