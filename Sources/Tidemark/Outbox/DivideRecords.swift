import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Divides records of unknown transactions into as many independent parts as possible.
///
/// Two records are in one part when
///
/// - one refers, or referred, to the other, unless ``putsParentsFirst`` and the parent is new;
/// - both have, or had, the same value in a unique index: they may have exchanged it;
/// - an update of the key turned one into the other;
/// - their table has a unique index on an expression or with a custom collation;
/// - neither is in a table that is declared independent;
/// - both are in one part with a third.
///
/// Names and unique values are compared without case and spaces. So values that a collation considers
/// equal are equal here, too.
struct DivideRecords {
    let db: Database
    let schema: SyncSchema
    let independent: IndependentTables
    /// Whether a new parent and its children may be in different parts, the parent's earlier.
    var putsParentsFirst = false

    func clear() throws { try db.execute(cached: "DELETE FROM temp.tidemark_division") }

    /// Replaces the records by those of a query: table, key, operation, base, changed columns and group, in order.
    func fill(with selection: String, arguments: StatementArguments) throws {
        try clear()
        try db.execute(
            cached: "INSERT INTO temp.tidemark_division (tbl, key, operation, before, attributes, grp) \(selection)",
            arguments: arguments)
    }

    /// Replaces the records by those of a pending change set, parents first.
    func fill(withChangeSet seq: Int64) throws {
        try fill(
            with: """
                SELECT entry.tbl, entry.key, entry.operation, entry.before, entry.attributes, 0
                FROM tidemark_outbox AS entry
                LEFT JOIN json_each(?) AS place ON place.value = entry.tbl
                WHERE entry.seq = ?
                ORDER BY place.key, length(entry.key), entry.key
                """, arguments: [JSONText.array(schema.tables.map { JSONText.quote($0.name) }), seq])
    }

    /// Makes change sets of the parts of a pending change set, which keeps the first one; later ones get room.
    func spread(_ seq: Int64, over count: Int, newID: () -> UUID) throws {
        for table in ["tidemark_changeset", "tidemark_outbox", "tidemark_after", "tidemark_wire_rest"] {
            // By way of numbers far above, because a number is unique at each moment.
            try db.execute(
                sql: "UPDATE \(table) SET seq = seq + ?1 WHERE seq > ?2", arguments: [Outbox.farAbove, seq])
            try db.execute(
                sql: "UPDATE \(table) SET seq = seq - ?1 + ?2 WHERE seq > ?1 / 2",
                arguments: [Outbox.farAbove, count - 1])
        }
        let list = JSONText.array((1..<count).map { #"[\#($0),"\#(newID().uuidString.lowercased())"]"# })
        try db.execute(
            sql: """
                INSERT INTO tidemark_changeset (seq, id, epoch, time, merges)
                SELECT whole.seq + (part.value ->> 0), part.value ->> 1, whole.epoch, whole.time, whole.merges
                FROM tidemark_changeset AS whole, json_each(?2) AS part
                WHERE whole.seq = ?1
                """, arguments: [seq, list])
        try db.execute(sql: "UPDATE tidemark_changeset SET difference = NULL WHERE seq = ?", arguments: [seq])
        try db.execute(sql: "INSERT INTO tidemark_outside SELECT value ->> 1 FROM json_each(?)", arguments: [list])
        try db.execute(
            sql: """
                UPDATE tidemark_outbox SET seq = tidemark_outbox.seq + division.part
                FROM temp.tidemark_division AS division
                WHERE tidemark_outbox.seq = ? AND tidemark_outbox.tbl = division.tbl
                    AND tidemark_outbox.key = division.key AND division.part > 0
                """, arguments: [seq])
    }

    /// Numbers each group's parts in `temp.tidemark_division` from 0; returns the counts of groups with several parts.
    ///
    /// `captureRange` is the range of captured changes to search for key updates; nil if those changes are already
    /// drained. With `sizeMax`, in characters of keys and values, neighbouring parts are one part up to that size.
    func divide(captureRange: ClosedRange<Int64>?, sizeMax: Int? = nil) throws -> [Int64: Int] {
        let records = try Row.fetchAll(db, sql: "SELECT num, grp, tbl FROM temp.tidemark_division ORDER BY num").map {
            row in
            let num: Int64 = try row.value("num")
            let group: Int64 = try row.value("grp")
            return (num: num, group: group, table: try row.value("tbl") as String)
        }
        guard records.count > 1 else { return [:] }
        var parts = DisjointSets()
        let present = Set(records.map(\.table))
        var lastDependent: [Int64: Int64] = [:]
        for record in records where !independent.contains(record.table) {
            parts.unite(record.num, lastDependent[record.group, default: record.num])
            lastDependent[record.group] = record.num
        }
        for pair in try pairs(present) { parts.unite(pair.0, pair.1) }
        let moves = try captureRange.map { try keyUpdates(in: $0, of: present) } ?? sameImages()
        for pair in moves { parts.unite(pair.0, pair.1) }
        if putsParentsFirst { try uniteChildrenBeforeParents(present, &parts) }
        if let sizeMax { try uniteNeighbours(upTo: sizeMax, records.map(\.num), &parts) }
        return try number(records.map { ($0.num, $0.group) }, &parts)
    }

    /// Unites the parts of a new parent and of a child whose part would come before the parent's.
    private func uniteChildrenBeforeParents(_ present: Set<String>, _ parts: inout DisjointSets) throws {
        let pairs = try references(among: present, ofNewParents: true)
        var isOrdered = false
        // A united part comes where its first record is, which may be before another parent's part.
        while !isOrdered {
            isOrdered = true
            for (child, parent) in pairs where parts.root(of: child) < parts.root(of: parent) {
                parts.unite(child, parent)
                isOrdered = false
            }
        }
    }

    /// Unites parts that follow each other by their first records, up to a size.
    private func uniteNeighbours(upTo sizeMax: Int, _ records: [Int64], _ parts: inout DisjointSets) throws {
        let rows = try Row.fetchAll(
            db, sql: "SELECT num, length(key) + coalesce(length(attributes), 0) FROM temp.tidemark_division")
        var sizes: [Int64: Int] = [:]
        for row in rows {
            let size: Int = try row.value(1)
            sizes[parts.root(of: try row.value(0)), default: 0] += size
        }
        var last: (part: Int64, size: Int)?
        // The root of a part is its first record, or an intermediate key without a record.
        for root in sizes.keys.sorted() {
            let size = sizes[root] ?? 0
            guard let open = last, open.size + size <= sizeMax else {
                last = (root, size)
                continue
            }
            parts.unite(open.part, root)
            last = (open.part, open.size + size)
        }
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
        try db.execute(
            cached: """
                UPDATE temp.tidemark_division
                SET part = entry.value ->> 1
                FROM json_each(?) AS entry
                WHERE num = entry.value ->> 0
                """, arguments: ["[\(list.joined(separator: ","))]"])
        return counts.filter { $0.value > 1 }
    }

    // MARK: Connections between records

    private func pairs(_ present: Set<String>) throws -> [(Int64, Int64)] {
        var pairs = try references(among: present, ofNewParents: false)
        for table in schema.tables where present.contains(table.name) { pairs += try exchanges(of: table) }
        return pairs
    }

    /// Returns the pairs of a child and its parent, or only those that may be in different parts.
    private func references(among present: Set<String>, ofNewParents: Bool) throws -> [(Int64, Int64)] {
        guard putsParentsFirst || !ofNewParents else { return [] }
        var pairs: [(Int64, Int64)] = []
        for table in schema.tables where present.contains(table.name) {
            for reference in table.references where present.contains(reference.parent) {
                guard let parent = schema.byName[reference.parent] else { continue }
                pairs += try references(table, reference, to: parent, ofNewParents: ofNewParents)
            }
        }
        return pairs
    }

    private func references(
        _ table: SyncedTable, _ reference: SyncedTable.Reference, to parent: SyncedTable, ofNewParents: Bool
    ) throws -> [(Int64, Int64)] {
        var condition = ""
        if putsParentsFirst { condition = "WHERE \(ofNewParents ? "" : "NOT ")(parent_record.operation = 'create')" }
        return try fetch(
            """
            WITH child AS MATERIALIZED (\(names(table, reference.columns))),
                parent AS MATERIALIZED (\(names(parent, reference.parentColumns)))
            SELECT DISTINCT child.num, parent.num
            FROM child
            JOIN parent ON parent.name = child.name AND parent.grp = child.grp
            JOIN temp.tidemark_division AS parent_record ON parent_record.num = parent.num
            \(condition)
            """)
    }

    /// Returns pairs of records that may have exchanged a unique value.
    private func exchanges(of table: SyncedTable) throws -> [(Int64, Int64)] {
        let indexes = try Row.fetchAll(
            db,
            sql: """
                SELECT unique_index.name AS idx, index_column.name AS col, index_column.coll
                FROM pragma_index_list(?) AS unique_index
                JOIN pragma_index_xinfo(unique_index.name) AS index_column
                WHERE unique_index."unique" AND unique_index.origin <> 'pk' AND index_column.key
                ORDER BY unique_index.name, index_column.seqno
                """, arguments: [table.name])
        let own = Set(table.columns.map(\.name))
        var pairs: [(Int64, Int64)] = []
        for (_, rows) in try Dictionary(grouping: indexes, by: { try $0.value("idx") as String }) {
            let columns = try rows.compactMap { try $0.value("col") as String? }
            let hasBuiltInCollations = try rows.allSatisfy {
                let collation = try $0.value("coll") as String? ?? ""
                return ["BINARY", "NOCASE", "RTRIM"].contains(collation.uppercased())
            }
            let isComparable = hasBuiltInCollations && columns.count == rows.count && own.isSuperset(of: columns)
            let literal = SQLText.literal(table.name)
            let values =
                isComparable
                ? names(table, columns)
                : "SELECT num, grp, '' AS name FROM temp.tidemark_division WHERE tbl = \(literal)"
            pairs += try fetch(
                "SELECT first_value(num) OVER (PARTITION BY grp, name ORDER BY num), num FROM (\(values))")
        }
        return pairs
    }

    /// Returns pairs of records that an update of the key connects.
    private func keyUpdates(in range: ClosedRange<Int64>, of present: Set<String>) throws -> [(Int64, Int64)] {
        var pairs: [(Int64, Int64)] = []
        var placeholder: Int64 = 0
        for table in schema.tables where present.contains(table.name) {
            let old = RowJSON.key(table, prefix: "old_")
            let new = RowJSON.key(table, prefix: "new_")
            let updates = try Row.fetchAll(
                db,
                sql: """
                    SELECT \(old), \(new) FROM \(SQLText.name(CaptureTables.shadow(table)))
                    WHERE kind = 'update' AND seq BETWEEN ? AND ? AND \(old) <> \(new)
                    """, arguments: [range.lowerBound, range.upperBound]
            ).map { try ($0.value(0) as String, $0.value(1) as String) }
            guard !updates.isEmpty else { continue }
            var numbers = try Row.fetchAll(
                db, sql: "SELECT key, num FROM temp.tidemark_division WHERE tbl = ?", arguments: [table.name]
            ).reduce(into: [String: Int64]()) { numbers, row in numbers[try row.value("key")] = try row.value("num") }
            for (old, new) in updates {
                // An intermediate key may belong to no record any more, but it connects two others.
                for key in [old, new] where numbers[key] == nil {
                    placeholder -= 1
                    numbers[key] = placeholder
                }
                if let old = numbers[old], let new = numbers[new] { pairs.append((old, new)) }
            }
        }
        return pairs
    }

    /// Returns deletions and creations of the same row, which may be updates of its key.
    private func sameImages() throws -> [(Int64, Int64)] {
        try fetch(
            """
            SELECT deletion.num, creation.num
            FROM temp.tidemark_division AS deletion
            JOIN temp.tidemark_division AS creation
                ON creation.tbl = deletion.tbl AND creation.attributes = deletion.before
            WHERE deletion.operation = 'delete' AND creation.operation = 'create'
            """)
    }

    private func fetch(_ sql: String) throws -> [(Int64, Int64)] {
        try Row.fetchAll(db, sql: sql).map { try ($0.value(0) as Int64, $0.value(1) as Int64) }
    }

    /// Returns SQL for columns' old and new values as one text each, without records in which one is NULL.
    private func names(_ table: SyncedTable, _ columns: [String]) -> String {
        let sides = ["before", "coalesce(attributes -> %, before -> %)"]
        let selections = sides.enumerated().map { index, side in
            let values = columns.map { column -> String in
                if let position = table.key.firstIndex(of: column) {
                    return table.key.count == 1 ? "key" : "(key -> \(position))"
                }
                let path = SQLText.literal(MemberSQL.path(column))
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

/// A union-find of numbers; the root of a set is its lowest number.
private struct DisjointSets {
    private var parents: [Int64: Int64] = [:]

    mutating func root(of number: Int64) -> Int64 {
        var root = number
        while let parent = parents[root] { root = parent }
        var current = number
        while current != root {
            let next = parents[current] ?? root
            parents[current] = root
            current = next
        }
        return root
    }

    mutating func unite(_ one: Int64, _ other: Int64) {
        let low = root(of: one)
        let high = root(of: other)
        if low != high { parents[max(low, high)] = min(low, high) }
    }
}
