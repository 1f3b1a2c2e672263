/// The zone as it must be: every row at every revision, folded from the log.
struct ZoneModel: Sendable {
    /// A row after a revision.
    struct Version: Sendable {
        let revision: Int64
        /// nil if the record is gone.
        var row: Cells?
        /// The columns that an update set; nil for a creation or deletion.
        let columns: Set<String>?
        let changeSet: String?
        var stamp = Stamp(time: 0, identity: nil)
    }

    /// The time and device of a write: the order of `latest`.
    struct Stamp: Comparable, Sendable {
        let time: Int64
        /// nil if another program wrote it, at the server.
        let identity: String?

        static func < (a: Stamp, b: Stamp) -> Bool { (a.time, a.identity ?? "") < (b.time, b.identity ?? "") }
    }

    /// The server's verdict on a change set.
    struct Verdict: Sendable {
        var body: String?
        /// nil if refused.
        let revision: Int64?
        /// The zone's revision at the verdict.
        let decided: Int64
        var truth: [RecordID: Cells?] = [:]
    }

    /// The permanent id of a temporary one.
    struct Assigned: Sendable {
        let permanent: Int64
        let revision: Int64
    }

    var epoch: String
    /// Raised by every restore: the same epoch, or revision, may then mean another history.
    var incarnation = 0
    var latest: Int64
    /// The columns of its tables; nil if they never change.
    var layout: Layout?
    var rows: Rows
    var versions: [RecordID: [Version]] = [:]
    /// The records that each revision touched.
    var touched: [Int64: [RecordID]] = [:]
    var changeSets: [Int64: String] = [:]
    /// The time of each revision, where a policy needs it.
    var times: [Int64: Int64] = [:]
    var verdicts: [String: Verdict] = [:]
    /// By the device's UUID and table.
    var assigned: [String: [String: [Int64: Assigned]]] = [:]
    /// For each incarnation but the first, the last revision that it shares with the one before.
    var commonUpTo: [Int64] = []

    init(epoch: String, revision: Int64, layout: Layout?, rows: Rows) {
        self.epoch = epoch
        latest = revision
        self.layout = layout
        self.rows = rows
        for (record, row) in rows.all {
            versions[record] = [Version(revision: revision, row: row, columns: nil, changeSet: nil)]
        }
    }

    /// The revision of a change set.
    func revision(of changeSet: String) -> Int64? { verdicts[changeSet]?.revision }

    /// Whether a change set was refused.
    func hasRefused(_ changeSet: String) -> Bool { verdicts[changeSet].map { $0.revision == nil } ?? false }

    /// A record's row at a revision.
    func row(_ record: RecordID, at revision: Int64) -> Cells? {
        versions[record]?.last { $0.revision <= revision }?.row
    }

    /// All rows at a revision.
    func state(at revision: Int64) -> [RecordID: Cells] {
        guard revision < latest else { return rows.all }
        return versions.compactMapValues { $0.last { $0.revision <= revision }?.row }
    }

    /// The zone at a revision: its rows and their versions.
    func asOf(_ revision: Int64, rules: Rules) -> ZoneModel {
        guard revision < latest else { return self }
        var zone = self
        zone.latest = revision
        for record in (revision + 1...latest).flatMap({ touched[$0] ?? [] }) {
            zone.versions[record]?.removeAll { $0.revision > revision }
            zone.rows.set(record, zone.versions[record]?.last?.row, rules: rules)
        }
        return zone
    }

    /// The ids that the server gave a device.
    func identities(of identity: String?) -> Identities {
        guard let identity, let tables = assigned[identity] else { return [:] }
        return tables.mapValues { $0.mapValues(\.permanent) }
    }

    /// Goes back to a revision, and on from there under another epoch.
    mutating func restore(epoch: String, revision: Int64, rules: Rules) {
        self.epoch = epoch
        incarnation += 1
        latest = min(latest, revision)
        commonUpTo.append(latest)
        let last = latest
        versions = versions.mapValues { $0.filter { $0.revision <= last } }.filter { !$0.value.isEmpty }
        rows = Rows(versions.compactMapValues { $0.last?.row }, rules: rules)
        touched = touched.filter { $0.key <= last }
        changeSets = changeSets.filter { $0.key <= last }
        times = times.filter { $0.key <= last }
        // A refusal at the very revision may be from before or after the copy.
        verdicts = verdicts.filter { $0.value.revision.map { $0 <= last } ?? ($0.value.decided < last) }
        assigned = assigned.mapValues { $0.mapValues { $0.filter { $0.value.revision <= last } } }
    }

    /// Goes on with a copy of its file under another epoch.
    mutating func restore(epoch: String, copy: ZoneModel) {
        // What this history shares with the copy's, which may be an earlier one.
        let common = commonUpTo.dropFirst(copy.incarnation).min() ?? latest
        let next = incarnation + 1
        let before = commonUpTo
        self = copy
        self.epoch = epoch
        incarnation = next
        commonUpTo = before + [min(copy.latest, common)]
    }

    /// Gives its tables other columns.
    ///
    /// A new one has its default at all earlier revisions, too, because devices that learn of it
    /// later find it at their own revision.
    mutating func alter(_ layout: Layout, rules: Rules) {
        self.layout = layout
        versions = Dictionary(
            uniqueKeysWithValues: versions.map { record, versions in
                let altered = versions.map { version in
                    var version = version
                    version.row = version.row.map { row in
                        layout.fitted(row, of: record.table)?.merging(row) { $1 } ?? row
                    }
                    return version
                }
                return (record, altered)
            }
        )
        var altered: [RecordID: Cells] = [:]
        for (record, row) in rows.all { altered[record] = layout.fitted(row, of: record.table) }
        rows = Rows(altered, rules: rules)
    }

    /// Whether a revision is the same in this history and in an earlier incarnation.
    func isCommon(_ revision: Int64, since incarnation: Int) -> Bool {
        commonUpTo.dropFirst(incarnation).allSatisfy { revision <= $0 }
    }
}
