import GRDB
import TidemarkSQL

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
    /// Reads the changes from the staged change sets with these numbers; the last change of a record counts.
    init(revision: Int64, stagedAs ords: [Int], in db: Database) throws {
        let list = "[" + ords.map(String.init).joined(separator: ",") + "]"
        let staged = """
            SELECT tbl, key, operation = 'delete' AS is_deleted, max(ord) FROM temp.tidemark_staged
            WHERE ord IN (SELECT value FROM json_each(?)) GROUP BY tbl, key
            """
        // One more than an event names shows that there are too many.
        let rows = try Row.fetchAll(db, cached: "\(staged) LIMIT \(Self.namesMax + 1)", arguments: [list])
        self.revision = revision
        if rows.count <= Self.namesMax {
            tables = try Dictionary(grouping: rows) { try $0.value("tbl") as String }.mapValues(Table.init(naming:))
        } else {
            let counts = try Row.fetchAll(
                db, cached: "SELECT tbl, count(*) AS records FROM (\(staged)) GROUP BY tbl", arguments: [list])
            tables = try counts.reduce(into: [:]) {
                $0[try $1.value("tbl") as String] = Table(records: try $1.value("records"), written: [], deleted: [])
            }
        }
    }
}

extension RemoteChanges.Table {
    fileprivate init(naming rows: [Row]) throws {
        let keys = try rows.map {
            (key: RecordKey(json: try $0.value("key")), isDeleted: try $0.value("is_deleted") as Bool)
        }
        records = rows.count
        written = Set(keys.filter { !$0.isDeleted }.map(\.key))
        deleted = Set(keys.filter(\.isDeleted).map(\.key))
    }
}
