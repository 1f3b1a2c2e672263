import TidemarkCore

/// The verdict on the change set of writes.
package enum WriteVerdict: Hashable, Sendable {
    /// A record of a change set: the table, and the key in JSON.
    package struct Name: Hashable, Sendable {
        let table: String
        let key: String
    }

    /// The writes are done.
    ///
    /// `keys` maps the keys of records as the client wrote them, such as temporary ids, to those that the zone has.
    case committed(revision: Int64, keys: [Name: String])
    /// Nothing is done.
    case refused([ConflictReason])

    /// Reads a verdict that the books keep: the author's copy of a change set, or the answer that refused it.
    ///
    /// It is nil for another text.
    init?(stored: String, revision: Int64?, of changeSet: RecordChangeSet) {
        guard let members = JSONParts.members(of: stored) else { return nil }
        if let revision {
            self = .committed(revision: revision, keys: Self.keys(members, changeSet))
        } else {
            self = .refused(ConflictReason.reasons(in: members))
        }
    }

    private typealias Members = [(name: String, value: String)]

    private static func keys(_ set: Members, _ changeSet: RecordChangeSet) -> [Name: String] {
        var keys: [Name: String] = [:]
        for part in set where !WireName.changeSetMembers.contains(part.name) {
            let name = WireName.name(of: JSONText.unquote("\"\(part.name)\""))
            guard let table = changeSet.writes.first(where: { $0.table.name == name })?.table else { continue }
            let members = JSONParts.members(of: part.value) ?? []
            let attributes = members.first { $0.name == "attributes" }.flatMap { JSONParts.members(of: $0.value) }
            for record in attributes ?? [] {
                let former = JSONParts.members(of: record.value)?.first { $0.name == "__oldId__" }
                guard let former else { continue }
                keys[Name(table: name, key: former.value)] = RecordHistory.key(named: record.name, of: table)
            }
        }
        return keys
    }
}

extension ConflictReason {
    /// Reads the reasons among the members of a refused change set.
    static func reasons(in members: [(name: String, value: String)]) -> [ConflictReason] {
        let list = members.first { $0.name == "reasons" }.flatMap { JSONParts.elements(of: $0.value) } ?? []
        return list.compactMap { reason in
            guard let parts = JSONParts.members(of: reason) else { return nil }
            let members = Dictionary(parts.map { ($0.name, $0.value) }) { first, _ in first }
            let text = { (name: String) in members[name].map(JSONText.unquote) ?? "" }
            return ConflictReason(
                table: text("table"),
                key: members["key"] ?? "",
                columns: members["columns"].flatMap { JSONParts.elements(of: $0) }?.map(JSONText.unquote) ?? [],
                rule: text("rule"),
                message: text("message")
            )
        }
    }

    /// The reason as JSON, with the key as it stands in a path.
    func json(_ schema: SyncSchema?) -> String {
        var members = [("table", JSONText.quote(table))]
        if !key.isEmpty {
            let table = schema?.byName[table]
            members.append(("key", table.map { JSONText.quote(RecordPath.text(canonical: key, of: $0)) } ?? key))
        }
        members += [("columns", JSONText.array(columns.map(JSONText.quote))), ("rule", JSONText.quote(rule))]
        members.append(("message", JSONText.quote(message)))
        return JSONText.object(members)
    }
}
