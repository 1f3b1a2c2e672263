import TidemarkHistory

/// Requests and answers over REST, read from their text.
///
/// This is a second reader, beside the one that the server plans writes with.
enum RestReading {
    typealias Text = JSONText.Text

    // MARK: Names

    /// The record that a path names, without its table: the texts in the keys of these worlds are plain words.
    static func record(_ segment: String, of table: String) -> RecordID {
        let parts = segment.split(separator: ",").map { Int64($0) == nil ? "\"\($0)\"" : String($0) }
        return RecordID(table, join(parts))
    }

    /// The path of a record.
    static func path(of record: RecordID) -> String {
        let key = Array(record.key.utf8)[...]
        let parts = record.key.hasPrefix("[") ? JSONText.elements(key) : [key]
        return "tables/\(record.table)/\(parts.map(JSONText.string).joined(separator: ","))"
    }

    private static func join(_ parts: [String]) -> String {
        parts.count == 1 ? parts[0] : "[\(parts.joined(separator: ","))]"
    }

    private static func key(of table: String) -> [String] {
        ZoneSchema.tables.first { $0.name == table }.map { table in table.key.map { table.columns[$0] } } ?? []
    }

    /// The tag of a revision; worlds with clients have one history.
    static func tag(_ revision: Int64) -> String { "\"\(revision)-\(Journal.epoch.prefix(8))\"" }

    private static func revision(ofTag tag: String) -> Int64? { Int64(tag.drop { $0 == "\"" }.prefix { $0 != "-" }) }

    // MARK: Writes

    /// The changes that a request to write means.
    static func changes(_ request: RestRequest) -> [RecordChange] {
        guard request.path == "batch" else {
            let body = request.body.map { Array($0.utf8)[...] }
            return [change(request.method, request.path, headers: request.headers, body: body, index: 0)]
        }
        let entries = members(Array((request.body ?? "").utf8)[...])["requests"].map(JSONText.elements) ?? []
        return entries.enumerated().map { index, entry in
            let entry = members(entry)
            var headers: [String: String] = [:]
            if let tag = entry["ifMatch"] { headers["If-Match"] = JSONText.string(tag) }
            if let absent = entry["ifNoneMatch"] { headers["If-None-Match"] = JSONText.string(absent) }
            return change(
                text(entry["method"]), text(entry["path"]), headers: headers, body: entry["body"], index: index)
        }
    }

    private static func change(_ method: String, _ path: String, headers: [String: String], body: Text?, index: Int)
        -> RecordChange
    {
        let parts = path.split(separator: "/").map(String.init)
        let names = key(of: parts[1])
        let cells = body.map { self.cells($0) } ?? [:]
        let record: RecordID
        if parts.count > 2 {
            record = self.record(parts[2], of: parts[1])
        } else {
            let values = names.compactMap { cells[$0] }
            record = RecordID(parts[1], values.count == names.count ? join(values) : "\(-1_000 - index)")
        }
        let isNew = method == "POST" || headers["If-None-Match"] != nil
        let tag = headers["If-Match"]
        return RecordChange(
            record, operation: method == "DELETE" ? .delete : isNew ? .create : .update,
            cells: cells.filter { !names.contains($0.key) },
            base: tag == "*" ? Offer.anyState : tag.flatMap(revision(ofTag:)))
    }

    /// What became of writes, by their answer.
    static func outcome(_ answer: RestAnswer, to request: RestRequest) -> OfferAnswer.Outcome {
        let body = answer.body.map { Array($0.utf8)[...] }
        guard answer.kind == .done else { return .refused(refusal(members(body ?? []))) }
        let isMinimal = request.headers["Prefer"] == "return=minimal"
        guard request.path == "batch" else {
            let location = request.method == "DELETE" ? nil : answer.location ?? request.path
            return .done([shown(tag: answer.entityTag, location: location, record: body, isMinimal: isMinimal)])
        }
        let entries = members(body ?? [])["responses"].map(JSONText.elements) ?? []
        return .done(
            entries.map { entry in
                let entry = members(entry)
                return shown(
                    tag: entry["etag"].map(JSONText.string), location: entry["location"].map(JSONText.string),
                    record: entry["record"], isMinimal: isMinimal)
            }
        )
    }

    /// The record of a write that is done; nil for one that is gone.
    private static func shown(tag: String?, location: String?, record: Text?, isMinimal: Bool) -> ShownRecord? {
        guard let parts = location?.split(separator: "/").map(String.init), parts.count == 3 else { return nil }
        let revision = tag.flatMap(revision(ofTag:))
        guard revision != nil || isMinimal else { return nil }
        let cells = record.map { self.cells($0) }
        return ShownRecord(self.record(parts[2], of: parts[1]), revision: revision, cells: cells)
    }

    private static func refusal(_ problem: [String: Text]) -> OfferAnswer.Refusal {
        let place = problem["place"].map(members) ?? [:]
        let table = text(place["table"])
        let placed = place["key"].map { named($0, of: table) }
        return OfferAnswer.Refusal(
            code: text(problem["code"]),
            reasons: (problem["reasons"].map(JSONText.elements) ?? []).map { reason in
                let reason = members(reason)
                let table = text(reason["table"])
                return (record(text(reason["key"]), of: table), text(reason["rule"]))
            },
            place: placed,
            current: problem["current"].flatMap { whole($0, of: table) }
        )
    }

    /// The record in the place of an error, whose key is the canonical JSON in a string.
    private static func named(_ key: Text, of table: String) -> RecordID { RecordID(table, JSONText.string(key)) }

    // MARK: Questions

    /// A page of a list or of the feed.
    struct Page {
        let members: [String: Text]

        init(_ answer: RestAnswer) { members = RestReading.members(Array((answer.body ?? "").utf8)[...]) }

        var revision: Int64? { members["revision"].flatMap { Int64(JSONText.raw($0)) } }
        var since: String? { members["since"].map(JSONText.raw) }
        var next: String? { members["next"].map(JSONText.string) }
        var hasMore: Bool { members["more"].map(JSONText.raw) == "true" }
    }

    /// The records that an answer to a question shows; nil for a problem that names none.
    static func sight(_ answer: RestAnswer, to request: RestRequest, of client: String) -> Sight? {
        let parts = request.path.split(separator: "/").map(String.init)
        let page = Page(answer)
        guard parts.count == 3 else {
            let list = parts.count == 2 ? records(page.members["records"], of: parts[1]) : []
            let feed = self.feed(page.members["changes"])
            return Sight(
                client: client, revision: page.revision, records: list + feed.filter { $0.cells != nil },
                absent: feed.filter { $0.cells == nil }.map(\.record))
        }
        let record = self.record(parts[2], of: parts[1])
        if answer.kind == .problem { return Sight(client: client, absent: [record]) }
        guard let revision = answer.entityTag.flatMap(revision(ofTag:)) else { return nil }
        let shownCells = answer.body.map { self.cells(Array($0.utf8)[...]) }
        return Sight(client: client, records: [ShownRecord(record, revision: revision, cells: shownCells)])
    }

    /// The records of a page of a list.
    static func records(_ list: Text?, of table: String) -> [ShownRecord] {
        (list.map(JSONText.elements) ?? []).compactMap { whole($0, of: table) }
    }

    /// A record that shows its revision.
    private static func whole(_ object: Text, of table: String) -> ShownRecord? {
        let cells = self.cells(object)
        let values = key(of: table).compactMap { cells[$0] }
        guard let revision = members(object)["$revision"].flatMap({ Int64(JSONText.raw($0)) }) else { return nil }
        return ShownRecord(RecordID(table, join(values)), revision: revision, cells: cells)
    }

    /// The records of a page of the feed; those that are gone have no cells.
    static func feed(_ changes: Text?) -> [ShownRecord] {
        (changes.map(JSONText.elements) ?? []).map { item in
            let item = members(item)
            let named = record(text(item["key"]), of: text(item["table"]))
            let revision = item["revision"].flatMap { Int64(JSONText.raw($0)) } ?? 0
            return ShownRecord(named, revision: revision, cells: item["record"].map { self.cells($0) })
        }
    }

    // MARK: JSON

    private static func members(_ object: Text) -> [String: Text] {
        Dictionary(JSONText.members(object).map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
    }

    /// The members of a record that are columns.
    private static func cells(_ object: Text) -> Cells {
        members(object).filter { !$0.key.hasPrefix("$") }.mapValues(JSONText.raw)
    }

    private static func text(_ value: Text?) -> String { value.map(JSONText.string) ?? "" }
}
