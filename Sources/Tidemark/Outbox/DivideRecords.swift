import GRDB
import TidemarkCore
import TidemarkSQLite

/// Divides records that changed together, though nobody knows of a transaction that did it, into
/// the largest number of parts that do not depend on each other.
///
/// Two records are in one part when
///
/// - one refers, or referred, to the other;
/// - both have, or had, one value of a unique index: they may have exchanged it;
/// - one is what the other became when its key was changed;
/// - their table has a unique index of which nobody can say what its values are made of;
/// - neither is in a table that is declared independent;
/// - both are in one part with a third.
///
/// Names and unique values are compared without case and blanks, so that no collation tells apart
/// here what it takes for one.
struct DivideRecords {
    let db: Database
    let schema: SyncSchema
    let independent: IndependentTables

    /// Forgets the records of the last division.
    func clear() throws { try db.cachedStatement(sql: "DELETE FROM temp.tidemark_division").execute() }

    /// Numbers the parts of each group in `temp.tidemark_division`, from 0 in the order of their
    /// first records.
    ///
    /// `moved` are the captured changes that may have given a record another key; nil: they are
    /// not captured any more.
    ///
    /// - Returns: The number of parts of each group that has more than one.
    func divide(moved: ClosedRange<Int64>?) throws -> [Int64: Int] {
        let records = try Row.fetchAll(db, sql: "SELECT num, grp, tbl FROM temp.tidemark_division ORDER BY num").map {
            row in
            let num: Int64 = try row.value("num")
            let group: Int64 = try row.value("grp")
            return (num: num, group: group, table: try row.value("tbl") as String)
        }
        guard records.count > 1 else { return [:] }
        var parts = DisjointSets()
        let present = Set(records.map(\.table))
        var rest: [Int64: Int64] = [:]
        for record in records where !independent.contains(record.table) {
            parts.unite(record.num, rest[record.group, default: record.num])
            rest[record.group] = record.num
        }
        for pair in try pairs(present) { parts.unite(pair.0, pair.1) }
        for pair in try moved.map({ try moves($0, present) }) ?? sameImages() { parts.unite(pair.0, pair.1) }
        return try number(records.map { ($0.num, $0.group) }, &parts)
    }

    private func number(_ records: [(num: Int64, group: Int64)], _ parts: inout DisjointSets) throws -> [Int64: Int] {
        var counts: [Int64: Int] = [:]
        var numbers: [Int64: Int] = [:]
        var list: [String] = []
        for (num, group) in records {
            let root = parts.root(of: num)
            let part = numbers[root] ?? counts[group, default: 0]
            if numbers[root] == nil {
                numbers[root] = part
                counts[group] = part + 1
            }
            if part > 0 { list.append("[\(num),\(part)]") }
        }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_division SET part = j.value ->> 1
                FROM json_each(?) AS j WHERE num = j.value ->> 0
                """
        ).execute(arguments: ["[\(list.joined(separator: ","))]"])
        return counts.filter { $0.value > 1 }
    }

    // MARK: What connects records

    private func pairs(_ present: Set<String>) throws -> [(Int64, Int64)] {
        var pairs: [(Int64, Int64)] = []
        for table in schema.tables where present.contains(table.name) {
            for reference in table.references where present.contains(reference.parent) {
                guard let parent = schema.byName[reference.parent] else { continue }
                pairs += try references(table, reference, to: parent)
            }
            pairs += try exchanges(of: table)
        }
        return pairs
    }

    private func references(_ table: SyncedTable, _ reference: SyncedTable.Reference, to parent: SyncedTable) throws
        -> [(Int64, Int64)]
    {
        try fetch(
            """
            WITH child AS MATERIALIZED (\(names(table, reference.columns))),
                parent AS MATERIALIZED (\(names(parent, reference.parentColumns)))
            SELECT DISTINCT c.num, p.num FROM child AS c JOIN parent AS p
                ON p.name = c.name AND p.grp = c.grp
            """
        )
    }

    /// Records that may have exchanged a unique value.
    private func exchanges(of table: SyncedTable) throws -> [(Int64, Int64)] {
        let indexes = try Row.fetchAll(
            db,
            sql: """
                SELECT i.name AS idx, x.name AS col, x.coll FROM pragma_index_list(?) AS i
                JOIN pragma_index_xinfo(i.name) AS x WHERE i."unique" AND i.origin <> 'pk' AND x.key
                ORDER BY i.name, x.seqno
                """,
            arguments: [table.name]
        )
        let own = Set(table.columns.map(\.name))
        var pairs: [(Int64, Int64)] = []
        for (_, rows) in try Dictionary(grouping: indexes, by: { try $0.value("idx") as String }) {
            let columns = try rows.compactMap { try $0.value("col") as String? }
            let isPlain = try rows.allSatisfy {
                let collation = try $0.value("coll") as String? ?? ""
                return ["BINARY", "NOCASE", "RTRIM"].contains(collation.uppercased())
            }
            let isKnown = isPlain && columns.count == rows.count && own.isSuperset(of: columns)
            let literal = SQLText.literal(table.name)
            let values =
                isKnown
                ? names(table, columns)
                : "SELECT num, grp, '' AS name FROM temp.tidemark_division WHERE tbl = \(literal)"
            pairs += try fetch(
                """
                SELECT first_value(num) OVER (PARTITION BY grp, name ORDER BY num), num
                FROM (\(values))
                """
            )
        }
        return pairs
    }

    /// Records that had, or got, another key.
    private func moves(_ range: ClosedRange<Int64>, _ present: Set<String>) throws -> [(Int64, Int64)] {
        var pairs: [(Int64, Int64)] = []
        var passing: Int64 = 0
        for table in schema.tables where present.contains(table.name) {
            let old = RowJSON.key(table, prefix: "old_")
            let new = RowJSON.key(table, prefix: "new_")
            let moved = try Row.fetchAll(
                db,
                sql: """
                    SELECT \(old), \(new) FROM \(SQLText.name(CaptureTables.shadow(table)))
                    WHERE kind = 'update' AND seq BETWEEN ? AND ? AND \(old) <> \(new)
                    """,
                arguments: [range.lowerBound, range.upperBound]
            ).map { try ($0.value(0) as String, $0.value(1) as String) }
            guard !moved.isEmpty else { continue }
            var numbers = try Row.fetchAll(
                db,
                sql: "SELECT key, num FROM temp.tidemark_division WHERE tbl = ?",
                arguments: [table.name]
            ).reduce(into: [String: Int64]()) { numbers, row in numbers[try row.value("key")] = try row.value("num") }
            for (old, new) in moved {
                // A key between two others may be no record's any more, but connects them.
                for key in [old, new] where numbers[key] == nil {
                    passing -= 1
                    numbers[key] = passing
                }
                if let old = numbers[old], let new = numbers[new] { pairs.append((old, new)) }
            }
        }
        return pairs
    }

    /// Deletions and creations of one row, which may be one whose key was changed.
    private func sameImages() throws -> [(Int64, Int64)] {
        try fetch(
            """
            SELECT d.num, c.num FROM temp.tidemark_division AS d JOIN temp.tidemark_division AS c
                ON c.tbl = d.tbl AND c.attributes = d.before
            WHERE d.operation = 'delete' AND c.operation = 'create'
            """
        )
    }

    private func fetch(_ sql: String) throws -> [(Int64, Int64)] {
        try Row.fetchAll(db, sql: sql).map { try ($0.value(0) as Int64, $0.value(1) as Int64) }
    }

    /// SQL for the values of some columns in the records of a table, before and after, as one text;
    /// nothing where one is NULL.
    private func names(_ table: SyncedTable, _ columns: [String]) -> String {
        let sides = ["before", "coalesce(attributes -> %, before -> %)"]
        let selections = sides.enumerated().map { index, side in
            let values = columns.map { column -> String in
                if let position = table.key.firstIndex(of: column) {
                    return table.key.count == 1 ? "key" : "(key -> \(position))"
                }
                let path = SQLText.literal("$.\"\(column)\"")
                let value = index == 0 ? "before -> \(path)" : side.replacing("%", with: path)
                return "nullif(\(value), 'null')"
            }
            let name = values.joined(separator: " || ',' || ")
            let has = index == 0 ? "before IS NOT NULL" : "operation <> 'delete'"
            return """
                SELECT num, grp, lower(replace(\(name), ' ', '')) AS name
                FROM temp.tidemark_division WHERE tbl = \(SQLText.literal(table.name)) AND \(has)
                """
        }
        return "SELECT * FROM (\(selections.joined(separator: " UNION "))) WHERE name IS NOT NULL"
    }
}

/// Numbers in disjoint sets, each named by one of them.
private struct DisjointSets {
    private var parents: [Int64: Int64] = [:]

    mutating func root(of number: Int64) -> Int64 {
        var root = number
        while let parent = parents[root] { root = parent }
        var each = number
        while each != root {
            let next = parents[each] ?? root
            parents[each] = root
            each = next
        }
        return root
    }

    mutating func unite(_ one: Int64, _ other: Int64) {
        let low = root(of: one)
        let high = root(of: other)
        if low != high { parents[max(low, high)] = min(low, high) }
    }
}
