/// The rows of a file, and who refers to whom.
struct Rows: Sendable {
    private(set) var all: [RecordID: Cells] = [:]
    private var children: [RecordID: Set<RecordID>] = [:]

    init() {}

    init(_ rows: [RecordID: Cells], rules: Rules) { for (record, row) in rows { set(record, row, rules: rules) } }

    subscript(_ record: RecordID) -> Cells? { all[record] }

    /// Gives a record another row, or none.
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

    /// The records that refer to some, and those that refer to them.
    func descendants(of records: [RecordID]) -> Set<RecordID> {
        var found = Set<RecordID>()
        var next = records
        while let record = next.popLast() { next += children(of: record).filter { found.insert($0).inserted } }
        return found
    }

    /// A reference to nothing among the records, or to one of them that is gone.
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
