/// A device's file as it must be: what the server confirmed, and what waits on top of it.
struct DeviceModel: Sendable {
    /// Edits of one record that are not in the outbox yet.
    struct Undrained: Sendable {
        /// The row before the first of them.
        var before: Cells?
        /// The revision that the file was at then.
        let cursor: Int64
    }

    let name: String
    var identity: String
    var epoch: String?
    /// The incarnation of the zone that the cursor belongs to.
    var incarnation: Int
    var cursor: Int64
    /// The columns of its tables; nil: nobody ever alters them.
    var layout: Layout?
    /// What of them the zone has too, as far as the file knows: what travels.
    var shared: Layout?
    /// The zone's rows at the cursor, with all the zone's columns.
    var confirmed: [RecordID: Cells]
    /// The rows that are in the file.
    var rows: Rows
    var outbox: [OutboxSet] = []
    var inbox: [String: ParkedSet] = [:]
    var undrained: [RecordID: Undrained] = [:]
    /// The transactions since the last drain, each with what it did; nil: some edits are a
    /// migration's, which is no transaction.
    var deeds: [[RecordID: RowChange]]? = []
    var captured = 0
    /// Whether somebody has written into tables that only this file has since the last drain.
    var hasOwnEdits = false
    /// Records that do not show all that waits for them, since it did not fit when it was looked at
    /// last.
    var hiding: Set<RecordID> = []
    /// Rows that were taken out, as they were: what only this file has in them may come back.
    var gone: [RecordID: Cells] = [:]
    var identities: Identities = [:]
    /// The latest time that the file has given or taken in.
    var lastTime: Int64 = 0
    /// Every change set that was ever made in this file.
    var own: Set<String> = []
    /// Those that this file knows to be accepted, oldest first.
    var settled: [String] = []
    /// What waits for each record, oldest first.
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

    /// The tables have other columns: a new one has its default in every row.
    mutating func alter(_ layout: Layout, rules: Rules) {
        self.layout = layout
        var altered: [RecordID: Cells] = [:]
        for (record, row) in rows.all { altered[record] = layout.fitted(row, of: record.table) }
        rows = Rows(altered, rules: rules)
        for (record, edit) in undrained {
            undrained[record]?.before = self.layout.fitted(edit.before, of: record.table)
        }
    }

    /// Takes over the outbox that was found.
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
    /// What it does, with the keys of that time; once it is frozen, what of it travels.
    var changes: [RecordChange]
    /// The change sets that it names, and those that it builds on.
    var after: Set<String>
    /// The revision that the file was at when each record was edited.
    var seen: [RecordID: Int64]
    /// The incarnation of the zone that `seen` belongs to.
    var incarnation: Int
    /// Every change set that its author had made up to it: those count as seen.
    let own: Set<String>
    /// When it was made, by the device's hybrid clock.
    var time: Int64 = 0

    /// The oldest revision that it was made at.
    var seenMin: Int64 { seen.values.min() ?? 0 }
}
