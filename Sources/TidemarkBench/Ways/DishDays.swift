import Foundation
import GRDB
import TidemarkCore
import TidemarkTestSupport

/// What happens to a list of dishes in a month, from a seed.
///
/// On the first day all dishes are imported under one time. Then each day 1 % of them change, 0.2 % are deleted and as
/// many are new; of the changes, 1 % are committed a day late with their old time. In the middle of the month a sixth
/// of the dishes change under one time.
struct DishDays {
    /// The number of dishes of the first day.
    let rows: Int
    /// The number of days, the first one included.
    let days: Int
    private var generator: SeededGenerator
    private var present: [Int]
    private var late: [String] = []

    init(rows: Int, days: Int, seed: UInt64 = 5) {
        self.rows = rows
        self.days = days
        generator = SeededGenerator(seed: seed)
        present = Array(1...rows)
    }

    /// The number of dishes that a client fails to store on one day, and loses on another.
    var lost: Int { max(5, rows / 600) }
    /// The day on which the client does not store what arrives.
    var failingDay: Int { days / 3 }
    /// The day on which many dishes change under one time.
    var bulkDay: Int { days / 2 }
    /// The day on which stored dishes vanish from the client.
    var losingDay: Int { days * 2 / 3 }

    /// Makes the file with the dishes of the first day.
    func make(at path: String) throws {
        let file = try DatabaseQueue(path: path)
        try file.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(
                sql: """
                    CREATE TABLE dish (
                        id INTEGER PRIMARY KEY, city_id INTEGER NOT NULL, name TEXT NOT NULL, price INTEGER NOT NULL,
                        updated TEXT NOT NULL, is_deleted INTEGER NOT NULL DEFAULT 0
                    );
                    CREATE INDEX dish_updated ON dish (updated, id);
                    CREATE INDEX dish_city ON dish (city_id, updated, id);
                    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
                    INSERT INTO dish
                    SELECT i, (i * 2654435761) % 4294967296 % 10,
                        'dish number ' || i || ' with ' || hex(i * 40503 % 65536), 100 + i * 7919 % 900,
                        '\(Self.time(0, 21_600))', 0
                    FROM n
                    """)
            try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
        try file.close()
    }

    /// The change sets of the next day, as parts of a request's `changeSets`.
    mutating func changes(on day: Int) -> [String] {
        var updates = Dictionary(uniqueKeysWithValues: draw(rows / 100).map { ($0, change(on: day, at: nil)) })
        for id in draw(max(1, rows / 500)) {
            updates[id] = #"{"is_deleted":1,"updated":"\#(Self.time(day, second()))"}"#
            present.removeAll { $0 == id }
        }
        var sets = late
        let lateIDs = updates.keys.sorted().prefix(max(1, rows / 10_000))
        late = lateIDs.map { id in
            let set = Self.changeSet(updates: [id: updates[id] ?? "{}"], created: [])
            updates[id] = nil
            return set
        }
        let created = (0..<max(1, rows / 500)).map { number in
            #"{"city_id":\#(pick(10)),"name":"new dish \#(number) of day \#(day)","price":\#(100 + pick(900)),"#
                + #""updated":"\#(Self.time(day, second()))","is_deleted":0}"#
        }
        sets.append(Self.changeSet(updates: updates, created: created))
        if day == bulkDay {
            let time = Self.time(day, 82_800)
            let bulk = draw(rows / 6).map { ($0, change(on: day, at: time)) }
            sets.append(Self.changeSet(updates: Dictionary(uniqueKeysWithValues: bulk), created: []))
        }
        return sets
    }

    // MARK: Private

    private mutating func draw(_ count: Int) -> [Int] {
        Array(Set((0..<count).map { _ in present[pick(present.count)] })).sorted()
    }

    private mutating func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

    /// A second of a day, before that of the day's bulk.
    private mutating func second() -> Int { pick(82_800) }

    private mutating func change(on day: Int, at time: String?) -> String {
        let time = time ?? Self.time(day, second())
        return
            #"{"name":"dish changed on day \#(day), \#(pick(100_000))","price":\#(100 + pick(900)),"updated":"\#(time)"}"#
    }

    private static func changeSet(updates: [Int: String], created: [String]) -> String {
        let ids = updates.keys.sorted()
        let temporary = created.indices.map { -1 - $0 }
        let attributes = ids.map { ("\($0)", updates[$0] ?? "{}") } + zip(temporary.map(String.init), created)
        let members = [
            ("create", JSONText.array(temporary.map(String.init))), ("update", JSONText.array(ids.map(String.init))),
            ("delete", "[]"), ("attributes", JSONText.object(attributes)),
        ]
        return JSONText.object([("types", #"["dish"]"#), ("dish", JSONText.object(members))])
    }

    /// A time of the month; October has 31 days.
    private static func time(_ day: Int, _ second: Int) -> String {
        String(format: "2026-10-%02dT%02d:%02d:%02d", day + 1, second / 3_600, second / 60 % 60, second % 60)
    }
}
