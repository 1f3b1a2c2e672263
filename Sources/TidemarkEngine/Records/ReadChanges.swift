package import TidemarkCore

/// Answers `GET /changes`: which records changed or were deleted after a place in the log.
///
/// A page examines a bounded number of log entries, in the order of the log, and never sorts the log. It names a
/// record at its latest change only: a record that has a later entry comes with that one. So a whole walk
/// names each record once, with the values that it has when the page is read.
///
/// A deletion is `gone`. With a filter, a record that does not fit is `gone`, too, if a column of the filter changed:
/// this is how a row leaves the part that a client keeps. So `gone` may name records that the client never had.
package struct ReadChanges {
    private let reader: any ZoneReader
    private let query: FeedQuery

    /// Wraps a read transaction.
    package init(_ query: FeedQuery, _ reader: any ZoneReader) {
        self.query = query
        self.reader = reader
    }

    /// A page of a feed.
    package struct Page: Hashable, Sendable {
        package let json: String
        /// The place after the page.
        package let next: FeedCursor
        /// Whether the page names any record.
        package let isEmpty: Bool
        /// Whether more entries of the log follow.
        package let hasMore: Bool
        /// The zone's epoch.
        package let epoch: String
        /// The zone's revision: no row of the page is younger.
        package let revision: Int64
    }

    package func page(after start: LogPosition) throws -> Page {
        let part = try part(after: start)
        let items = part.news.map { news in
            var members = [
                ("table", JSONText.quote(news.entry.table)), ("key", JSONText.quote(news.key)),
                ("revision", String(news.entry.revision)),
            ]
            members.append(news.row.map { ("record", record($0, of: news, among: part.entries)) } ?? ("gone", "true"))
            return JSONText.object(members)
        }
        let json = JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("since", String(start.revision)), ("next", JSONText.quote(part.next.text)),
            ("more", part.hasMore ? "true" : "false"), ("changes", JSONText.array(items)),
        ])
        return Page(
            json: json, next: part.next, isEmpty: items.isEmpty, hasMore: part.hasMore, epoch: reader.state.epoch,
            revision: reader.state.revision)
    }

    /// Reads the same of one table, as the members of an answer with records and the keys of those that are gone.
    func difference(after start: LogPosition) throws -> [(name: String, value: String)] {
        let part = try part(after: start)
        let records = part.news.compactMap { news in
            news.row.map { record($0, of: news, among: part.entries, key: news.key) }
        }
        let gone = part.news.filter { $0.row == nil }.map { JSONText.quote($0.key) }
        return [
            ("since", String(start.revision)), ("next", JSONText.quote(part.next.text)),
            ("more", part.hasMore ? "true" : "false"), ("records", JSONText.array(records)),
            ("gone", JSONText.array(gone)),
        ]
    }

    /// What a page says about one record.
    private struct News {
        let entry: LogRecord
        /// The record's key, as in a path.
        let key: String
        /// Its row; nil if it is gone.
        let row: RowText?
    }

    /// The examined part of the log.
    private struct Part {
        let entries: [LogRecord]
        let news: [News]
        let next: FeedCursor
        let hasMore: Bool
    }

    private func part(after start: LogPosition) throws -> Part {
        let examined = try reader.log.entries(after: start, limit: ZoneReaderLimits.entriesMax)
        var entries = withinLimit(examined)
        var candidates = candidates(entries)
        var (rows, unread) = try rows(of: candidates)
        // A page without its last entries names some records at earlier ones, so it is read again.
        while let place = unread {
            entries = entries.filter { Self.place($0) < place }
            candidates = self.candidates(entries)
            (rows, unread) = try self.rows(of: candidates)
        }
        let isLast = entries.count == examined.count && examined.count < ZoneReaderLimits.entriesMax
        let end = isLast ? LogPosition(revision: reader.state.revision) : entries.last.map(Self.place)
        let leaving = leaving(entries)
        let position = max(start, end ?? start)
        return Part(
            entries: entries,
            news: candidates.compactMap { entry in news(of: entry, rows[Self.name(entry)], leaving: leaving) },
            next: FeedCursor(position: position, tag: try reader.tag(of: position.revision)), hasMore: !isLast)
    }

    /// The first entries, as far as they are about no more records than the page may name.
    private func withinLimit(_ entries: [LogRecord]) -> [LogRecord] {
        let limit = query.limit ?? ListQuery.allMax
        var named: Set<[[UInt8]]> = []
        return Array(
            entries.prefix { entry in
                guard query.tables?.contains(entry.table) != false, !query.isDeletedOnly || entry.operation == .delete
                else { return true }
                named.insert(Self.name(entry))
                return named.count <= limit
            }
        )
    }

    /// Table and key as bytes: two strings that Swift finds equal can be the keys of two records.
    private static func name(_ key: String, of table: String) -> [[UInt8]] { [Array(table.utf8), Array(key.utf8)] }
    private static func name(_ entry: LogRecord) -> [[UInt8]] { name(entry.key, of: entry.table) }

    private static func place(_ entry: LogRecord) -> LogPosition {
        LogPosition(revision: entry.revision, table: entry.table, key: entry.key)
    }

    /// The last entry of each record, in the order of the log.
    private func candidates(_ entries: [LogRecord]) -> [LogRecord] {
        var seen: Set<[[UInt8]]> = []
        var last: [LogRecord] = []
        for entry in entries.reversed() where query.tables?.contains(entry.table) != false {
            guard reader.schema.byName[entry.table] != nil, seen.insert(Self.name(entry)).inserted else {
                continue
            }
            if !query.isDeletedOnly || entry.operation == .delete { last.append(entry) }
        }
        return last.reversed()
    }

    /// Reads the present rows, one question a table.
    ///
    /// - Returns: The rows by table and key, and the place of the first candidate that did not fit into the page.
    private func rows(of candidates: [LogRecord]) throws -> ([[[UInt8]]: RowText], unread: LogPosition?) {
        var found: [[[UInt8]]: RowText] = [:]
        var unread: LogPosition?
        for (name, entries) in Dictionary(grouping: candidates, by: \.table).sorted(by: { $0.key < $1.key }) {
            guard let table = reader.schema.byName[name] else { continue }
            var question = RowQuery(table, limit: entries.count, bytesMax: bytesMax)
            question.columns = query.list?.columns ?? table.columns
            question.filter = query.list?.filter
            question.charactersMax = query.list?.charactersMax
            question.keys = entries.map(\.key)
            let page = try reader.rows(question)
            for row in page.rows { found[Self.name(row.key, of: name)] = row }
            guard page.hasMore, let last = page.rows.last,
                let index = entries.firstIndex(where: { Self.name($0) == Self.name(last.key, of: name) }),
                index + 1 < entries.count
            else { continue }
            let place = Self.place(entries[index + 1])
            unread = min(unread ?? place, place)
        }
        return (found, unread)
    }

    private var bytesMax: Int { query.limit == nil ? ZoneReaderLimits.wholeBytesMax : ZoneReaderLimits.bytesMax }

    /// The news of a record; nil for a record that a later entry names, or that was never in the filter.
    private func news(of entry: LogRecord, _ row: RowText?, leaving: Set<[[UInt8]]>) -> News? {
        guard let row else {
            guard leaving.contains(Self.name(entry)) else { return nil }
            let key = RecordPath.text(canonical: entry.key, of: reader.schema.byName[entry.table])
            return News(entry: entry, key: key, row: nil)
        }
        guard !query.isDeletedOnly, query.isChangedOnly || row.revision == entry.revision else { return nil }
        return News(entry: entry, key: RecordPath.text(row.position.key), row: row)
    }

    /// The records that these entries can have moved out: deleted ones, and with a filter those whose columns of the
    /// filter changed.
    private func leaving(_ entries: [LogRecord]) -> Set<[[UInt8]]> {
        let columns = Set(query.list?.filter?.columns.map(\.name) ?? [])
        return Set(
            entries.filter { entry in
                guard entry.operation == .update, !columns.isEmpty else { return entry.operation == .delete }
                return entry.columns.isEmpty || !columns.isDisjoint(with: entry.columns)
            }.map(Self.name)
        )
    }

    /// A record with the selected columns, or those of them that changed.
    private func record(_ row: RowText, of news: News, among entries: [LogRecord], key: String? = nil) -> String {
        let columns = query.list?.columns ?? reader.schema.byName[news.entry.table]?.columns ?? []
        let own = entries.filter { query.isChangedOnly && Self.name($0) == Self.name(news.entry) }
        guard !own.isEmpty, own.allSatisfy({ $0.operation == .update }) else {
            return RecordText.object(row, columns: columns, key: key)
        }
        let changed = Set(own.flatMap(\.columns))
        let shown = zip(columns, row.cells).filter { changed.contains($0.0.name) }
        let part = RowText(key: row.key, cells: shown.map(\.1), revision: row.revision, position: row.position)
        return RecordText.object(part, columns: shown.map(\.0), key: key)
    }
}
