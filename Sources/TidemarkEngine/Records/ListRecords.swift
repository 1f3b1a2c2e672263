package import TidemarkCore

/// Answers `GET /tables/{table}` and `GET /tables/{table}/{key}` from one read transaction.
package struct ListRecords {
    private let reader: any ZoneReader

    /// Wraps a read transaction.
    package init(_ reader: any ZoneReader) { self.reader = reader }

    /// An answer about rows.
    package struct Answer: Hashable, Sendable {
        /// The JSON; nil if the client has it already.
        package let json: String?
        /// The entity tag, with its quotes.
        package let entityTag: String
        /// The cursor of the next page.
        package var next: String?
    }

    /// Reads one record.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownRecord`` if there is none.
    package func record(
        _ key: String, in table: SyncedTable, selecting items: [ListQuery.Item] = [], unlike known: String? = nil
    ) throws -> Answer {
        let list = try ListQuery(items, of: table)
        guard list.filter == nil, list.order.isEmpty, list.after == nil, list.count == nil, list.limit == 100 else {
            throw TidemarkError(
                .invalidFilter, "A single record has the parameters select and truncate only.",
                fix: "Filter GET /tables/\(table.name) instead.")
        }
        guard let row = try rows([key], of: table, list).first else { throw Self.unknownRecord(key, table) }
        let tag = RecordTag(try reader.tag(of: row.row.revision)).entityTag
        // Related records change without their parent, so their answer has no tag of the record alone.
        if list.relations.isEmpty, Self.matches(known, tag) { return Answer(json: nil, entityTag: tag) }
        return Answer(json: RecordText(list.columns).object(row.row, related: row.related), entityTag: tag)
    }

    /// The error about a record that is not there.
    package static func unknownRecord(_ key: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .unknownRecord, "The table has no record of this key.", fix: "GET /tables/\(table.name) lists its records.",
            place: .init(table: table.name, key: key))
    }

    package func page(_ items: [ListQuery.Item], of table: SyncedTable, unlike known: String? = nil) throws -> Answer {
        let list = try ListQuery(items, of: table)
        let zone = reader.state
        let question = Self.question(items, table)
        let cursor = try list.after.map {
            try RecordCursor(
                $0, question: question, orderCount: list.order.count, keyCount: table.key.count, reader: reader)
        }
        let state = try reader.tag(of: zone.revision)
        let tag = pageTag(items, of: table, at: state)
        if Self.matches(known, tag) { return Answer(json: nil, entityTag: tag) }

        var query = query(list, table)
        query.filter = list.filter
        query.order = list.order
        query.after = cursor?.position
        query.limit = list.limit ?? ListQuery.allMax
        query.bytesMax = list.limit == nil ? ZoneReaderLimits.wholeBytesMax : ZoneReaderLimits.bytesMax
        let page = try reader.rows(query)
        if list.limit == nil, page.hasMore { throw Self.tooLarge(table) }

        let since = cursor?.since ?? state
        var next: String?
        if page.hasMore, let last = page.rows.last {
            next = try RecordCursor(position: last.position, since: since).text(question: question, zone: zone)
        }
        let related = try RelatedRecords(reader).attach(list, to: page.rows, columns: query.columns, of: table)
        var json = #"{"epoch":\#(JSONText.quote(zone.epoch)),"revision":\#(zone.revision),"state":"\#(state.text)","#
        json += "\"since\":\(since.revision),"
        if let next { json += "\"next\":\(JSONText.quote(next))," }
        if let count = try count(list, table) { json += "\"count\":\(count)," }
        json += "\"records\":["
        let text = RecordText(list.columns)
        for (index, row) in page.rows.enumerated() {
            if index > 0 { json += "," }
            text.append(row, key: RecordPath.text(row.position.key), related: related[index], to: &json)
        }
        json += "]}"
        return Answer(json: json, entityTag: tag, next: next)
    }

    /// The question of a list without its place, for cursors.
    private static func question(_ items: [ListQuery.Item], _ table: SyncedTable) -> String {
        let parts = items.filter { $0.name != "after" && $0.name != "limit" && $0.name != "count" }
        return ([table.name] + parts.map { "\($0.name)=\($0.value)" }).joined(separator: "\n")
    }

    private func pageTag(_ items: [ListQuery.Item], of table: SyncedTable, at state: StateTag) -> String {
        let question = ([table.name] + items.map { "\($0.name)=\($0.value)" }).joined(separator: "\n")
        return "\"\(state.text)-\(RecordCursor.hash(question, reader.state))\""
    }

    private func count(_ list: ListQuery, _ table: SyncedTable) throws -> String? {
        switch list.count {
        case nil: return nil
        case .estimate: return try reader.estimate(table).json
        case .exact:
            let count = try reader.count(table, where: list.filter, max: ZoneReaderLimits.countMax)
            let isAll = count <= ZoneReaderLimits.countMax
            return isAll ? String(count) : #"{"atLeast":\#(ZoneReaderLimits.countMax)}"#
        }
    }

    private static func tooLarge(_ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .tooLarge, "The table has more than \(ListQuery.allMax) records or 16 MiB, too many for one answer.",
            fix: "Send limit=\(ListQuery.limitMax) and follow `next`.", place: .init(table: table.name))
    }

    /// Returns records by their keys, each with its related records.
    private func rows(_ keys: [String], of table: SyncedTable, _ list: ListQuery) throws -> [(
        row: RowText, related: [(name: String, value: String)]
    )] {
        var query = query(list, table)
        query.keys = keys
        let rows = try reader.rows(query).rows
        let related = try RelatedRecords(reader).attach(list, to: rows, columns: query.columns, of: table)
        return Array(zip(rows, related))
    }

    /// The question for the selected columns, and those that related records refer to.
    private func query(_ list: ListQuery, _ table: SyncedTable) -> RowQuery {
        var query = RowQuery(table, limit: 1, bytesMax: ZoneReaderLimits.bytesMax)
        query.columns = list.columns
        if !list.relations.isEmpty { query.columns += table.columns.filter { !list.columns.contains($0) } }
        query.charactersMax = list.charactersMax
        return query
    }

    /// Whether one of the tags in `If-None-Match` is this one.
    package static func matches(_ known: String?, _ tag: String) -> Bool {
        guard let known else { return false }
        return known.split(separator: ",").contains { part in
            let text = part.drop { $0 == " " }
            return text == "*" || (text.hasPrefix("W/") ? text.dropFirst(2) : text).prefix { $0 != " " } == tag
        }
    }
}
