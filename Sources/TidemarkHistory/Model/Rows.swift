/// The rows of a file, and the references between them.
struct Rows: Sendable {
    private(set) var all: [RecordID: Cells] = [:]
    private var children: [RecordID: Set<RecordID>] = [:]

    init() {}

    init(_ rows: [RecordID: Cells], rules: Rules) { for (record, row) in rows { set(record, row, rules: rules) } }

    subscript(_ record: RecordID) -> Cells? { all[record] }

    /// Replaces or removes a record's row.
    mutating func set(_ record: RecordID, _ row: Cells?, rules: Rules) {
        if let old = all[record] {
            for parent in rules.parents(of: record.table, old) { children[parent]?.remove(record) }
        }
        all[record] = row
        guard let row else { return }
        for parent in rules.parents(of: record.table, row) { children[parent, default: []].insert(record) }
    }

    /// The records that refer to one.
    func children(of record: RecordID) -> Set<RecordID> { children[record] ?? [] }

    /// The records that refer to some, directly or through others.
    func descendants(of records: [RecordID]) -> Set<RecordID> {
        var descendants = Set<RecordID>()
        var next = records
        while let record = next.popLast() { next += children(of: record).filter { descendants.insert($0).inserted } }
        return descendants
    }

    /// Finds a broken reference of the records, or to one that is gone.
    func brokenReference(around records: some Sequence<RecordID>, rules: Rules) -> (child: RecordID, parent: RecordID)?
    {
        for record in records {
            if let row = all[record] {
                for parent in rules.parents(of: record.table, row) where all[parent] == nil { return (record, parent) }
            } else if let child = children[record]?.min() {
                return (child, record)
            }
        }
        return nil
    }
}
