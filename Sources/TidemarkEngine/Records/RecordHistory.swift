package import TidemarkCore

/// Answers `GET /tables/{table}/{key}/history`: a record's changes, newest first, with the values before and after.
///
/// The values after a change are those of its change set. The values before it are those of the latest earlier
/// change that set the column; for a column that no change had set, the log keeps the value with which the row
/// was adopted. What compaction has deleted is left out.
package struct RecordHistory {
    private let reader: any ZoneReader
    private let table: SyncedTable
    private let contacts: [DeviceContact]

    /// Wraps a read transaction; `contacts` are those of the zone that the server has only in memory.
    package init(of table: SyncedTable, _ reader: any ZoneReader, contacts: [DeviceContact] = []) {
        self.table = table
        self.reader = reader
        self.contacts = contacts
    }

    /// The most changes of one record that the server examines.
    private static let entriesMax = 1_000
    /// The most bytes of change sets that one answer reads.
    private static let bytesMax = 16 << 20

    /// The changes as JSON.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownRecord`` if there is no such record, and never was as far as the log
    ///   says.
    package func json(_ key: String, _ query: ListRevisions.Query) throws -> String {
        var present = RowQuery(table, limit: 1, bytesMax: ZoneReaderLimits.bytesMax)
        present.keys = [key]
        present.columns = []
        let row = try reader.rows(present).rows.first
        let stored = row?.key ?? key
        let entries = try reader.history(of: stored, in: table, before: query.before, limit: Self.entriesMax)
        guard row != nil || !entries.isEmpty else { throw ListRecords.unknownRecord(key, table) }

        let shown = entries.prefix(query.limit)
        let values = try values(of: stored, entries)
        let devices = try KnownDevices(reader, contacts: contacts)
        let records = try revisions(shown.map(\.revision))
        let items = shown.indices.map { index -> String in
            let entry = entries[index]
            let record = records[entry.revision]
            let author = record.map { ListRevisions.author(of: $0, devices) } ?? []
            let members =
                [("revision", String(entry.revision))] + author + [
                    ("operation", JSONText.quote(entry.operation.rawValue)),
                    ("before", before(index, of: entries, values)), ("after", after(entry, values)),
                ]
            return JSONText.object(members)
        }
        let next = entries.count > shown.count ? shown.last.map { String($0.revision) } : nil
        return JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("horizon", String(reader.state.horizon)), ("next", next ?? "null"), ("history", JSONText.array(items)),
        ])
    }

    /// The values of columns at a revision, as far as the log knows them, as JSON; null if the record was not there.
    ///
    /// `later` are the values at some later revision. A column that no change has set since had the same value before.
    func values(of columns: [String], in key: String, at revision: Int64, later: [String: String]) throws -> String {
        let entries = try reader.history(of: key, in: table, before: .max, limit: Self.entriesMax)
        let isWhole = reader.state.horizon <= revision && entries.count < Self.entriesMax
        guard let start = entries.firstIndex(where: { $0.revision <= revision }) ?? entries.indices.last else {
            return object(isWhole ? later.filter { columns.contains($0.key) } : [:])
        }
        let isBefore = entries[start].revision > revision
        if isBefore ? entries[start].operation == .create : entries[start].operation == .delete { return "null" }
        let values = try values(of: key, entries)
        var known: [String: String] = [:]
        for column in columns {
            known[column] = isBefore ? nil : value(of: column, in: entries[start...], values)
            // The first later change of an adopted column names its value.
            if known[column] == nil {
                let next = entries.last { $0.revision > revision && adopted($0)[column] != nil }
                known[column] = next.flatMap { adopted($0)[column] }
            }
            let isUnchanged = entries.allSatisfy {
                $0.revision <= revision || $0.operation == .update && !$0.columns.contains(column)
            }
            if known[column] == nil, isWhole, isUnchanged { known[column] = later[column] }
        }
        return object(known)
    }

    /// The value that the newest of some entries sets.
    private func value(of column: String, in entries: ArraySlice<LogRecord>, _ values: [Int64: [String: String]])
        -> String?
    {
        for entry in entries {
            guard entry.operation != .delete else { return nil }
            if entry.operation == .create || entry.columns.contains(column) { return values[entry.revision]?[column] }
        }
        return nil
    }

    /// The values of adopted columns before their first change.
    private func adopted(_ entry: LogRecord) -> [String: String] {
        let members = entry.before.flatMap { JSONParts.members(of: $0) } ?? []
        return Dictionary(members.map { (WireName.name(of: $0.name), $0.value) }) { first, _ in first }
    }

    /// The values that each change set, by column in canonical JSON; nil for a change set that the log does not have.
    private func values(of key: String, _ entries: [LogRecord]) throws -> [Int64: [String: String]] {
        let bodies = try reader.changeSets(of: entries.map(\.revision), bytesMax: Self.bytesMax)
        let name = Self.attributeName(key, of: table)
        return bodies.compactMapValues { body in
            let path = [Self.rawName(WireName.member(table: table.name)), "attributes", name]
            guard let object = JSONParts.value(at: path, of: Array(body.utf8)),
                let members = JSONParts.members(of: object)
            else { return nil }
            let columns = members.filter { !WireName.recordMembers.contains($0.name) }
            return Dictionary(columns.map { (WireName.name(of: $0.name), $0.value) }) { first, _ in first }
        }
    }

    private func revisions(_ numbers: [Int64]) throws -> [Int64: RevisionRecord] {
        let records = try reader.revisions(numbers)
        return Dictionary(records.map { ($0.revision, $0) }) { first, _ in first }
    }

    private func after(_ entry: LogRecord, _ values: [Int64: [String: String]]) -> String {
        guard entry.operation != .delete else { return "null" }
        return object(values[entry.revision] ?? [:])
    }

    /// The values before the change at an index, of the columns that it sets.
    private func before(_ index: Int, of entries: [LogRecord], _ values: [Int64: [String: String]]) -> String {
        let entry = entries[index]
        guard entry.operation != .create else { return "null" }
        var old = adopted(entry)
        let columns = entry.operation == .delete ? table.valueColumns.map(\.name) : entry.columns
        for column in columns {
            if let value = value(of: column, in: entries[(index + 1)...], values) { old[column] = value }
        }
        return object(old)
    }

    func object(_ values: [String: String]) -> String {
        let members = table.columns.compactMap { column in
            values[column.name].map { (RecordText.member(of: column.name), RecordText.value($0)) }
        }
        return JSONText.object(members)
    }

    /// A key as the name of a member of `attributes`, with its escapes.
    static func attributeName(_ key: String, of table: SyncedTable) -> String {
        switch table.keyKind {
        case .integer: key
        case .text where key.hasPrefix("\""): String(key.dropFirst().dropLast())
        case .text, .general: rawName(key)
        }
    }

    /// The key for which a member of `attributes` stands.
    static func key(named name: String, of table: SyncedTable) -> String {
        switch table.keyKind {
        case .integer: name
        case .text: "\"\(name)\""
        case .general: JSONText.unquote("\"\(name)\"")
        }
    }

    private static func rawName(_ name: String) -> String { String(JSONText.quote(name).dropFirst().dropLast()) }
}
