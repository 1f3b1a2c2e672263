import TidemarkCore

/// The records that the device took over from others in one step.
///
/// For an open editor: does it show a record that somebody else has just changed or deleted?
///
/// ```swift
/// for await case .changed(let changes) in sync.deviceEvents {
///     if changes.change(of: RecordName("item", 7)) == .deleted { offerToWriteItAgain() }
/// }
/// ```
public struct RemoteChanges: Hashable, Sendable {
    /// What others did to a record.
    public enum Change: Hashable, Sendable {
        /// They created or changed it.
        case written
        /// They deleted it.
        case deleted
        /// They changed its table in more records than the event names, perhaps this one.
        case unknown
    }

    /// The changes in one table.
    public struct Table: Hashable, Sendable {
        /// The number of changed records.
        public let records: Int
        /// The records that exist now; empty if the event names none.
        public let written: Set<RecordKey>
        /// The records that no longer exist; empty if the event names none.
        public let deleted: Set<RecordKey>
    }

    /// The most records that an event names; beyond that, it names tables only.
    public static let namesMax = 1_000
    /// The revision that the device is at now.
    public let revision: Int64
    /// The changes by table.
    public let tables: [String: Table]
    /// The number of changed records in all tables.
    public var records: Int { tables.values.reduce(0) { $0 + $1.records } }

    /// What others did to a record; nil if they did not touch it.
    public func change(of record: RecordName) -> Change? {
        guard let table = tables[record.table] else { return nil }
        if table.written.contains(record.key) { return .written }
        if table.deleted.contains(record.key) { return .deleted }
        return table.records > table.written.count + table.deleted.count ? .unknown : nil
    }
}

extension RemoteChanges {
    /// Names the records of change sets with one table of names; the last change of a record counts.
    init(revision: Int64, _ records: some Sequence<ChangeSet.Record>, _ names: WireNames) {
        var deletions: [RecordID: Bool] = [:]
        for record in records {
            deletions[RecordID(table: record.table, key: record.key)] = record.operation == .delete
        }
        let byTable = Dictionary(grouping: deletions) { $0.key.table }
        let isNamed = deletions.count <= Self.namesMax
        let tables = byTable.map { place, records in
            let keys = { (isDeleted: Bool) in
                Set(records.lazy.filter { isNamed && $0.value == isDeleted }.map { RecordKey(json: $0.key.key) })
            }
            return (
                names.tables[place].name,
                Table(records: records.count, written: keys(false), deleted: keys(true))
            )
        }
        self.init(revision: revision, tables: Dictionary(uniqueKeysWithValues: tables))
    }
}
