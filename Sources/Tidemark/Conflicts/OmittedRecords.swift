import GRDB
import TidemarkCore
import TidemarkSQL

/// Checks references between the records that a decision writes and the records that it omits.
///
/// An omitted record stays as the server has it. A reference between the two kinds would fail in SQLite, or a cascade
/// would delete an omitted record. So the check refuses the decision before the write, with the records' names.
struct OmittedRecords {
    let db: Database

    /// A record with all its columns, including the key.
    private struct Record {
        let table: SyncedTable
        let key: String
        let values: [String: DatabaseValue]
        var name: String { "\(table.name) \(key)" }
    }

    /// Refuses records that refer to an omitted, missing record, and deletions of a parent of an omitted record.
    ///
    /// A number that another record has by now stands for an omitted new record, unless the person has chosen it: those
    /// columns are in `choosing`, by record. `rows` are the omitted rows of `tidemark_conflict_record`.
    func check(
        _ rows: [Row], beside decisions: [RecordDecision], choosing: [RecordName: Set<String>], in schema: SyncSchema
    ) throws {
        let values = CurrentRows(db: db)
        var absent = [Record]()
        var present = [Record]()
        for row in rows {
            guard let table = schema.byName[try row.value("tbl")] else { continue }
            let key: String = try row.value("key")
            let mine: String? = try row.value("mine")
            let isNew = try row.value("operation") == TidemarkCore.Operation.create.rawValue
            let current = try values.current(table, key: key)
            if let current, !isNew || table.keyKind != .integer {
                present.append(try record(table, key: key, values: current))
            } else {
                absent.append(try record(table, key: key, values: RecordChanges(json: mine).values))
            }
        }
        let writtenRecords = try decisions.filter { $0.operation != .delete }.map { decision in
            let chosen = choosing[decision.name] ?? []
            let others = decision.values.filter { !chosen.contains($0.key) }
            return try record(decision.table, key: decision.key, values: others)
        }
        try refuse(links(from: writtenRecords, to: absent), "A record cannot be written again without its parent")
        let deletedRecords = try decisions.filter { $0.operation == .delete }.map {
            try record($0.table, key: $0.key, values: values.current($0.table, key: $0.key) ?? [:])
        }
        try refuse(links(from: present, to: deletedRecords), "A record cannot stay without its parent")
    }

    private func record(_ table: SyncedTable, key: String, values: [String: DatabaseValue]) throws -> Record {
        let parts = table.key.indices.map { KeySQL.part(table, $0, of: "?1") }
        let row = try Row.fetchOne(db, cached: "SELECT \(parts.joined(separator: ", "))", arguments: [key])
        let keyValues = table.key.enumerated().map { ($1, (row?[$0] as DatabaseValue?) ?? .null) }
        return Record(table: table, key: key, values: values.merging(keyValues) { $1 })
    }

    private func links(from children: [Record], to parents: [Record]) -> [String] {
        guard !parents.isEmpty else { return [] }
        var parentsByTarget: [[String]: [[DatabaseValue]: Record]] = [:]
        var links: [String] = []
        for child in children {
            for reference in child.table.references {
                let target = [reference.parent] + reference.parentColumns
                let candidates =
                    parentsByTarget[target]
                    ?? Dictionary(
                        parents.filter { $0.table.name == reference.parent }.map { parent in
                            (reference.parentColumns.map { parent.values[$0] ?? .null }, parent)
                        }, uniquingKeysWith: { first, _ in first })
                parentsByTarget[target] = candidates
                let values = reference.columns.map { child.values[$0] ?? .null }
                guard !values.contains(.null), let parent = candidates[values] else { continue }
                links.append("\(child.name) refers to \(parent.name)")
            }
        }
        return links
    }

    private func refuse(_ links: [String], _ rule: String) throws {
        guard !links.isEmpty else { return }
        let more = links.count > 5 ? ["\(links.count - 5) more like these"] : []
        throw ResolveConflict.invalid(
            "\(rule): \((links.prefix(5) + more).joined(separator: ", ")).", fix: "Decide the same about both records.")
    }
}
