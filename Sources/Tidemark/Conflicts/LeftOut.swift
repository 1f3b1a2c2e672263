import GRDB
import TidemarkCore
import TidemarkSQLite

/// The records of a conflict that a decision leaves as the server has them, while others of the
/// same conflict are written again.
///
/// A reference between the two would end the write with SQLite's words, or a cascade would delete
/// what was to stay. So it is refused before anything is written, with the records' names.
struct LeftOut {
    let db: Database

    /// A record with its columns, those of the key among them.
    private struct Record {
        let table: SyncedTable
        let key: String
        let values: [String: DatabaseValue]

        var name: String { "\(table.name) \(key)" }
    }

    /// Refuses decisions about records that refer to one that is left out and not there, and
    /// deletions of what one that is left out refers to.
    ///
    /// `rows` are those of `tidemark_conflict_record` that are left out.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` that names such records.
    func check(_ rows: [Row], beside decisions: [RecordDecision], in schema: SyncSchema) throws {
        let values = RowValues(db: db)
        var absent = [Record]()
        var present = [Record]()
        for row in rows {
            guard let table = schema.byName[try row.value("tbl")] else { continue }
            let key: String = try row.value("key")
            let mine: String? = try row.value("mine")
            if let current = try values.current(table, key: key) {
                present.append(try record(table, key, current))
            } else {
                absent.append(try record(table, key, mine.map { try values.decode($0) } ?? [:]))
            }
        }
        let written = try decisions.filter { $0.operation != .delete }.map { try record($0.table, $0.key, $0.values) }
        try refuse(bonds(of: written, to: absent), "A record cannot be written again without the one that it refers to")
        let deleted = try decisions.filter { $0.operation == .delete }.map {
            try record($0.table, $0.key, values.current($0.table, key: $0.key) ?? [:])
        }
        try refuse(bonds(of: present, to: deleted), "A record cannot stay when the one that it refers to is deleted")
    }

    private func record(_ table: SyncedTable, _ key: String, _ values: [String: DatabaseValue]) throws -> Record {
        let parts = table.key.indices.map { KeySQL.part(table, $0, of: "?1") }
        let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT \(parts.joined(separator: ", "))"), arguments: [key])
        let named = table.key.enumerated().map { ($1, (row?[$0] as DatabaseValue?) ?? .null) }
        return Record(table: table, key: key, values: values.merging(named) { $1 })
    }

    /// Which of some records refer to which of others, in words.
    private func bonds(of children: [Record], to parents: [Record]) -> [String] {
        guard !parents.isEmpty else { return [] }
        var byColumns: [[String]: [[DatabaseValue]: Record]] = [:]
        var bonds: [String] = []
        for child in children {
            for reference in child.table.references {
                let place = [reference.parent] + reference.parentColumns
                let known =
                    byColumns[place]
                    ?? Dictionary(
                        parents.filter { $0.table.name == reference.parent }.map { parent in
                            (reference.parentColumns.map { parent.values[$0] ?? .null }, parent)
                        },
                        uniquingKeysWith: { first, _ in first }
                    )
                byColumns[place] = known
                let wanted = reference.columns.map { child.values[$0] ?? .null }
                guard !wanted.contains(.null), let parent = known[wanted] else { continue }
                bonds.append("\(child.name) refers to \(parent.name)")
            }
        }
        return bonds
    }

    private func refuse(_ bonds: [String], _ rule: String) throws {
        guard !bonds.isEmpty else { return }
        let more = bonds.count > 5 ? ["\(bonds.count - 5) more of the kind"] : []
        throw ResolveConflict.invalid(
            "\(rule): \((bonds.prefix(5) + more).joined(separator: ", ")).",
            fix: "Decide the same about both records."
        )
    }
}
