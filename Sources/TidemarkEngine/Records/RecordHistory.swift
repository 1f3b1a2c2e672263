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

    /// The changes that are read at once: each can have values of 1 MiB in every column.
    private static let entriesMax = 20
    /// The most later changes that an answer reads to find the values at a revision.
    static let laterMax = 1_000

    /// The changes as JSON.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownRecord`` if there is no such record, and never was as far as the log
    ///   says.
    package func json(_ key: String, _ query: PageQuery) throws -> String {
        var present = RowQuery(table, limit: 1, bytesMax: ZoneReaderLimits.bytesMax)
        present.keys = [key]
        present.columns = table.valueColumns
        let row = try reader.rows(present).rows.first
        let (entries, hasMore) = try changes(of: row?.key ?? key, before: query.before, limit: query.limit)
        guard row != nil || !entries.isEmpty else { throw ListRecords.unknownRecord(key, table) }
        let names = table.valueColumns.map(\.name)
        var past: [String: String]? = [:]
        if let newest = entries.first {
            let present = Dictionary(zip(names, row?.cells ?? [])) { first, _ in first }
            var laterMax = Self.laterMax
            past = try values(of: newest.key, at: newest.revision, later: present, &laterMax)
        }
        let next = hasMore ? entries.last?.revision : nil
        let shown = entries.map { entry in
            let after = past
            past = entry.undone(in: past)
            let set = entry.isMadeByMerge ? "{}" : object(after, of: entry)
            return (entry: entry, before: object(past, of: entry), after: set)
        }
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

    /// Reads changes before a revision, newest first, and whether there are more; long ones end the page early.
    private func changes(of key: String, before revision: Int64, limit: Int) throws -> ([LogRecord], hasMore: Bool) {
        var entries: [LogRecord] = []
        var bytes = 0
        while true {
            let count = min(Self.entriesMax, limit + 1 - entries.count)
            let last = entries.last?.revision ?? revision
            let found = try reader.log.history(of: key, in: table, before: last, limit: count)
            entries += found
            bytes += found.reduce(0) { $0 + ($1.replaced?.utf8.count ?? 0) }
            if entries.count > limit { return (entries.dropLast(), true) }
            if found.count < count { return (entries, false) }
            if bytes > ZoneReaderLimits.bytesMax { return (entries, true) }
        }
    }

    /// The values of a record at a revision, by column in canonical JSON; nil if it was not there.
    ///
    /// The first change after the revision tells what it replaced; `later` are the values after all changes that
    /// concern the caller. At most `laterMax` changes are read; it falls by their number, and by 10 at least.
    func values(of key: String, at revision: Int64, later: [String: String], _ laterMax: inout Int) throws
        -> [String: String]?
    {
        var known: [String: String] = [:]
        var settled: Set<String> = []
        var last = revision
        repeat {
            let entries = try reader.log.history(of: key, in: table, after: last, limit: Self.entriesMax)
            laterMax -= max(10, entries.count)
            for entry in entries {
                guard entry.operation != .create else { return nil }
                let columns = entry.operation == .delete ? table.valueColumns.map(\.name) : entry.columns
                let replaced = LogRecord.values(entry.replaced)
                for column in columns where settled.insert(column).inserted { known[column] = replaced[column] }
                if entry.operation == .delete { return known }
            }
            if entries.count < Self.entriesMax {
                guard !later.isEmpty || !settled.isEmpty else { return try isGone(key, at: revision) ? nil : [:] }
                return later.filter { !settled.contains($0.key) }.merging(known) { $1 }
            }
            last = entries[entries.count - 1].revision
        } while settled.count < table.valueColumns.count && laterMax > 0
        return known
    }

    private func isGone(_ key: String, at revision: Int64) throws -> Bool {
        try reader.log.history(of: key, in: table, before: revision + 1, limit: 1).first?.operation == .delete
    }

    private func revisions(_ numbers: [Int64]) throws -> [Int64: RevisionRecord] {
        let records = try reader.log.revisions(numbers)
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
        case .text, .general: String(JSONText.quote(key).dropFirst().dropLast())
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
}

extension LogRecord {
    /// Returns the values of its record before the change, from those after it; nil if the record did not exist.
    fileprivate func undone(in after: [String: String]?) -> [String: String]? {
        let replaced = LogRecord.values(self.replaced)
        switch operation {
        case .create: return nil
        case .delete: return replaced
        case .update: return (after ?? [:]).filter { !columns.contains($0.key) }.merging(replaced) { $1 }
        }
    }

    /// Whether compaction made a creation of several changes, so that nobody knows what it set.
    fileprivate var isMadeByMerge: Bool { isMerged && operation == .create }
}
