/// A device's file as it must be: the confirmed rows, with the waiting changes on top.
struct DeviceModel: Sendable {
    /// Edits of one record that are not in the outbox yet.
    struct Undrained: Sendable {
        /// The row before the first of them.
        var before: Cells?
        /// The file's revision at that time.
        let cursor: Int64
    }

    let name: String
    var identity: String
    var epoch: String?
    /// The incarnation of the zone that the cursor belongs to.
    var incarnation: Int
    var cursor: Int64
    /// The columns of its tables; nil if they never change.
    var layout: Layout?
    /// The columns that the zone has too, as far as the file knows.
    var shared: Layout?
    /// The zone's rows at the cursor, with all the zone's columns.
    var confirmed: [RecordID: Cells]
    /// The rows that are in the file.
    var rows: Rows
    var outbox: [OutboxSet] = []
    var inbox: [String: ParkedSet] = [:]
    var undrained: [RecordID: Undrained] = [:]
    /// The effects of each transaction since the last drain; nil if a migration made some of the
    /// edits, which is no transaction.
    var deeds: [[RecordID: RowChange]]? = []
    var captured = 0
    /// Whether tables that only this file has were written since the last drain.
    var hasOwnEdits = false
    /// Records that hide waiting changes because these did not fit at the last look.
    var hiding: Set<RecordID> = []
    /// Rows that were removed.
    ///
    /// Their values in columns that only this file has may come back.
    var removedRows: [RecordID: Cells] = [:]
    var identities: Identities = [:]
    /// The temporary ids whose permanent ones the server has forgotten.
    var formerIDs: [String: Set<Int64>] = [:]
    /// The latest time that the file has used or received.
    var lastTime: Int64 = 0
    /// Every change set that was ever made in this file.
    var own: Set<String> = []
    /// The accepted change sets, as far as the file knows, oldest first.
    var settled: [String] = []
    /// The waiting changes of each record, oldest first.
    private(set) var pending: [RecordID: [RecordChange]] = [:]

    init(name: String, identity: String, epoch: String?, incarnation: Int, cursor: Int64, rows: Rows) {
        self.name = name
        self.identity = identity
        self.epoch = epoch
        self.incarnation = incarnation
        self.cursor = cursor
        self.rows = rows
        confirmed = rows.all
    }

    /// Gives the tables other columns.
    ///
    /// A new one has its default in every row.
    mutating func alter(_ layout: Layout, rules: Rules) {
        self.layout = layout
        var altered: [RecordID: Cells] = [:]
        for (record, row) in rows.all { altered[record] = layout.fitted(row, of: record.table) }
        rows = Rows(altered, rules: rules)
        for (record, edit) in undrained {
            undrained[record]?.before = self.layout.fitted(edit.before, of: record.table)
        }
    }

    /// Takes over an outbox.
    mutating func hold(_ sets: [OutboxSet]) {
        outbox = sets
        pending = [:]
        for change in sets.flatMap(\.changes) { pending[change.record, default: []].append(change) }
    }
}

/// A change set since its first sight in an outbox.
struct AuthoredSet: Sendable {
    /// The file that made it.
    let device: String
    /// Its changes, with the keys of that time; once it is frozen, only their shared part.
    var changes: [RecordChange]
    /// The change sets that it names, and its predecessors.
    var after: Set<String>
    /// The file's revision at the edit of each record.
    var baseRevisions: [RecordID: Int64]
    /// The incarnation of the zone that `baseRevisions` belongs to.
    var incarnation: Int
    /// All earlier change sets of its author: those count as seen.
    let own: Set<String>
    /// The time of its edit, by the device's hybrid clock.
    var time: Int64 = 0
    /// The revision up to which a client without rows has seen the records that it does not name.
    var unnamedBase: Int64?

    /// The revision up to which its author had seen other records: the oldest among its edits.
    var oldestBase: Int64 { unnamedBase ?? baseRevisions.values.min() ?? 0 }
}
