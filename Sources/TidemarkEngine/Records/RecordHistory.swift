package import TidemarkCore

/// Answers `GET /tables/{table}/{key}/history`: a record's changes, newest first, with the values before and after.
///
/// It goes back in time: from the record's row, each entry of the log leads to the values before it. What compaction
/// has deleted is left out, and so are long values that the log does not keep.
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

    /// The changes that are read at once.
    private static let entriesMax = 100

    /// The changes as JSON.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownRecord`` if there is no such record, and never was as far as the log
    ///   says.
    package func json(_ key: String, _ query: ListRevisions.Query) throws -> String {
        var present = RowQuery(table, limit: 1, bytesMax: ZoneReaderLimits.bytesMax)
        present.keys = [key]
        present.columns = table.valueColumns
        let row = try reader.rows(present).rows.first
        var past = PastValues(
            row.map { row in Dictionary(zip(table.valueColumns.map(\.name), row.cells)) { first, _ in first } })
        var isKnown = row != nil
        var shown: [(entry: LogRecord, before: String, after: String)] = []
        var bytes = 0
        var next: Int64?
        try eachChange(of: row?.key ?? key) { entry in
            isKnown = true
            let after = past.values
            past.undo(entry)
            guard entry.revision < query.before else { return true }
            guard shown.count < query.limit, bytes <= ZoneReaderLimits.bytesMax else {
                next = shown.last?.entry.revision
                return false
            }
            shown.append((entry, object(past.values, of: entry), entry.isMadeByMerge ? "{}" : object(after, of: entry)))
            bytes += shown[shown.count - 1].before.utf8.count + shown[shown.count - 1].after.utf8.count
            return true
        }
        guard isKnown else { throw ListRecords.unknownRecord(key, table) }
        let devices = try KnownDevices(reader, contacts: contacts)
        let records = try revisions(shown.map(\.entry.revision))
        let items = shown.map { entry, before, after in
            let author = records[entry.revision].map { ListRevisions.author(of: $0, devices) } ?? []
            return JSONText.object(
                [("revision", String(entry.revision))] + author + [
                    ("operation", JSONText.quote(entry.operation.rawValue)), ("before", before), ("after", after),
                ])
        }
        return JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("horizon", String(reader.state.horizon)), ("next", next.map(String.init) ?? "null"),
            ("history", JSONText.array(items)),
        ])
    }

    /// The values of columns at a revision, as far as the log knows them, as JSON; null if the record was not there.
    ///
    /// `later` are the values at some later revision.
    func values(of columns: [String], in key: String, at revision: Int64, later: [String: String]) throws -> String {
        guard reader.state.horizon <= revision else { return "{}" }
        var past = PastValues(later)
        try eachChange(of: key) { entry in
            guard entry.revision <= revision else {
                past.undo(entry)
                return true
            }
            if entry.operation == .delete { past = PastValues(nil) }
            return false
        }
        return past.values.map { object($0.filter { columns.contains($0.key) }) } ?? "null"
    }

    /// Reads the changes of a record, newest first, until `body` returns false.
    private func eachChange(of key: String, _ body: (LogRecord) throws -> Bool) throws {
        var before = Int64.max
        while true {
            let entries = try reader.history(of: key, in: table, before: before, limit: Self.entriesMax)
            for entry in entries { guard try body(entry) else { return } }
            guard entries.count == Self.entriesMax, let last = entries.last else { return }
            before = last.revision
        }
    }

    private func revisions(_ numbers: [Int64]) throws -> [Int64: RevisionRecord] {
        let records = try reader.revisions(numbers)
        return Dictionary(records.map { ($0.revision, $0) }) { first, _ in first }
    }

    /// The values of the columns that a change sets; all for a creation and a deletion.
    private func object(_ values: [String: String]?, of entry: LogRecord) -> String {
        guard let values else { return "null" }
        return object(entry.operation == .update ? values.filter { entry.columns.contains($0.key) } : values)
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

/// A record's values by column in canonical JSON, on the way back from its row through the log.
private struct PastValues {
    /// The values that are known; nil if the record did not exist.
    private(set) var values: [String: String]?

    init(_ values: [String: String]?) { self.values = values }

    /// Goes back to before a change.
    mutating func undo(_ entry: LogRecord) {
        let replaced = LogRecord.values(entry.replaced)
        switch entry.operation {
        case .create: values = nil
        case .delete: values = replaced
        case .update:
            for column in entry.columns { values?[column] = nil }
            values = (values ?? [:]).merging(replaced) { $1 }
        }
    }
}

extension LogRecord {
    /// Whether compaction made a creation of several changes, so that nobody knows what it set.
    fileprivate var isMadeByMerge: Bool { isMerged && operation == .create }
}
