import TidemarkCore

/// Answers `GET /conflicts`: the change sets that the server refused, newest first.
///
/// Of each record, `mine` is what the author sent, `theirs` the server's record at the refusal, and `base` the record
/// at the revision that the author had seen, as far as the log knows it.
package struct ListConflicts {
    private let reader: any ZoneReader
    private let contacts: [DeviceContact]

    /// Wraps a read transaction; `contacts` are those of the zone that the server has only in memory.
    package init(_ reader: any ZoneReader, contacts: [DeviceContact] = []) {
        self.reader = reader
        self.contacts = contacts
    }

    package func json(_ query: PageQuery) throws -> String {
        let refusals = try reader.log.refusals(before: query.before, limit: query.limit + 1)
        let devices = try KnownDevices(reader, contacts: contacts)
        let shown = refusals.prefix(query.limit)
        let next = refusals.count > shown.count ? shown.last.map { String($0.number) } : nil
        var laterMax = RecordHistory.laterMax
        let conflicts = try shown.map { try text($0, devices: devices, laterMax: &laterMax) }
        return JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("next", next ?? "null"), ("conflicts", JSONText.array(conflicts)),
        ])
    }

    private func text(_ refusal: RefusalRecord, devices: KnownDevices, laterMax: inout Int) throws -> String {
        let body = Array(refusal.body.utf8)
        let reasons = ConflictReason.reasons(in: JSONParts.members(of: body) ?? []).map { $0.json(reader.schema) }
        return JSONText.object([
            ("id", JSONText.quote(refusal.id)), ("device", ListRevisions.text(refusal.device)),
            ("name", ListRevisions.text(refusal.device.flatMap { devices.name(of: $0) })),
            ("time", Moment.json(refusal.decided)), ("base", String(refusal.base)),
            ("reasons", JSONText.array(reasons)),
            ("records", JSONText.array(try records(refusal, truth: body, &laterMax))),
        ])
    }

    /// A record of a refused change set.
    private struct Sides {
        let table: SyncedTable
        let key: String
        var mine: [String: String]?
        var isDeletedByMe = false
        var base: Int64?
        /// The server's record; nil if it has none, or it is not in the truth.
        var theirs: String?
    }

    private func records(_ refusal: RefusalRecord, truth: [UInt8], _ laterMax: inout Int) throws -> [String] {
        var sides = sent(refusal)
        for table in reader.schema.tables {
            for (key, values) in Self.truth(of: table, in: truth) {
                if let index = sides.firstIndex(where: {
                    $0.table.name == table.name && $0.key.utf8.elementsEqual(key.utf8)
                }) {
                    sides[index].theirs = values
                } else {
                    sides.append(Sides(table: table, key: key, theirs: values))
                }
            }
        }
        return try sides.map { try text($0, &laterMax) }
    }

    private func text(_ sides: Sides, _ laterMax: inout Int) throws -> String {
        let history = RecordHistory(of: sides.table, reader)
        var members = [
            (name: "table", value: JSONText.quote(sides.table.name)),
            ("key", JSONText.quote(RecordPath.text(canonical: sides.key, of: sides.table))),
        ]
        if let mine = sides.mine {
            if let base = sides.base, laterMax > 0 {
                let theirs = sides.theirs.map(Self.values) ?? [:]
                let seen =
                    base < reader.state.horizon
                    ? [:] : try history.values(of: sides.key, at: base, later: theirs, &laterMax)
                members.append(("base", seen.map(history.object) ?? "null"))
            }
            members.append(("mine", sides.isDeletedByMe ? "null" : history.object(mine)))
        }
        members.append(("theirs", sides.theirs.map { history.object(Self.values($0)) } ?? "null"))
        return JSONText.object(members)
    }

    /// The records as the author sent them.
    private func sent(_ refusal: RefusalRecord) -> [Sides] {
        let texts = refusal.sent.flatMap { JSONParts.elements(of: $0) } ?? []
        return texts.compactMap { text in
            let parts = JSONParts.members(of: text)?.map { ($0.name, $0.value) } ?? []
            let members = Dictionary(parts) { first, _ in first }
            guard let name = members["table"].map(JSONText.unquote), let table = reader.schema.byName[name],
                let key = members["key"].map(JSONText.unquote)
            else { return nil }
            let values = members["values"].flatMap { JSONParts.members(of: $0) } ?? []
            let isCreated = members["operation"] == "\"create\""
            return Sides(
                table: table, key: key,
                mine: Dictionary(values.map { (JSONText.unquote("\"\($0.name)\""), $0.value) }) { $1 },
                isDeletedByMe: members["operation"] == "\"delete\"",
                base: isCreated ? nil : members["base"].flatMap { Int64($0) })
        }
    }

    /// The keys of the truth's records of a table, each with the server's values, or nil if it had no such record.
    private static func truth(of table: SyncedTable, in body: [UInt8]) -> [(key: String, values: String?)] {
        let member = String(JSONText.quote(WireName.member(table: table.name)).dropFirst().dropLast())
        guard let part = JSONParts.value(at: [member], of: body) else { return [] }
        let attributes = JSONParts.value(at: ["attributes"], of: part).flatMap { JSONParts.members(of: $0) } ?? []
        let rows = Dictionary(attributes.map { ($0.name, $0.value) }) { first, _ in first }
        let keys = { (name: String) -> [String] in
            let list = JSONParts.value(at: [name], of: part).map { String(decoding: $0, as: UTF8.self) }
            return list.flatMap { JSONParts.elements(of: $0) } ?? []
        }
        return keys("update").map { ($0, rows[RecordHistory.attributeName($0, of: table)]) }
            + keys("delete").map { ($0, nil) }
    }

    /// The values of a record of the truth, by column.
    private static func values(_ json: String) -> [String: String] {
        let members = (JSONParts.members(of: json) ?? []).filter { !WireName.recordMembers.contains($0.name) }
        return Dictionary(members.map { (WireName.name(of: $0.name), $0.value) }) { first, _ in first }
    }
}
