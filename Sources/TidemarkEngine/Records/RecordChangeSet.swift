import TidemarkCore

/// Writes of a client without rows that stand or fall together.
package struct ClientWrites: Hashable, Sendable {
    /// The id of their change set, which makes a retry harmless: a UUID in lower case.
    package let id: String
    /// The writes, in the client's order.
    package let requests: [WriteRequest]
    /// The revision up to which the client has seen the whole zone.
    package let seen: Int64?
    /// Whether the answers have no records.
    package let isMinimal: Bool

    /// Creates writes.
    package init(id: String, requests: [WriteRequest], seen: Int64? = nil, isMinimal: Bool = false) {
        self.id = id
        self.requests = requests
        self.seen = seen
        self.isMinimal = isMinimal
    }

    /// Returns the id of one entry's change set in a batch whose entries are judged one by one.
    package static func id(ofEntry index: Int, in batch: String) -> String {
        let hex = Array(ContentHash.of("\(batch)/\(index)"))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(hex[$0]) }.joined(separator: "-")
    }

    /// The size of the records, in bytes.
    var byteCount: Int { requests.reduce(0) { $0 + ($1.body?.utf8.count ?? 0) + 64 } }
}

/// The change set of one or more writes by a client without rows.
///
/// The commit judges it as it judges a device's, and no other statement writes rows.
struct RecordChangeSet: Sendable {
    let sent: ClientWrites
    /// The writes, in the client's order.
    let writes: [RecordWrite]
    /// The keys of the writes as the zone spells them, JSON; those of new records as the client does.
    var keys: [String]
    /// The tables whose policies let a write pass although the record has changed.
    private let merging: Set<String>

    /// Creates a change set.
    init(_ sent: ClientWrites, writes: [RecordWrite], merging: Set<String>) {
        self.sent = sent
        self.writes = writes
        keys = writes.map(\.key)
        self.merging = merging
    }

    /// The id that makes a retry harmless, a UUID in lower case.
    var id: String { sent.id }

    /// The hash by which a retry is known; it depends on the writes alone, not on the zone.
    private var hash: String {
        ContentHash.of(
            writes.map { write in
                let values = write.change.values.map { ($0.column, $0.json) }
                let facts = [write.table.name, write.operation.rawValue, write.change.base.map(String.init) ?? ""]
                return JSONText.array(facts.map { JSONText.quote($0) } + [write.key, JSONText.object(values)])
            })
    }

    /// Reads the values, as the commit judges them.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with the place of the first fault.
    func read(names: WireNames, limits: Limits) throws(TidemarkError) -> (SyncRequest, PendingChangeSet) {
        let changeSet = try ChangeSetReader(names, bound: ValueBound(limits)).changeSet(of: writes.map(\.change))
        var request = SyncRequest(maxRevision: 0)
        request.echo = nil
        request.changeSets = [SyncRequest.Envelope(index: 0, id: id, after: [], hash: hash)]
        return (request, changeSet)
    }

    /// Whether a client knows all columns of the record after a write, without another look.
    ///
    /// It has written them all, or has seen the others and no policy lets other authors change them meanwhile.
    func isKnownAfterwards(_ write: RecordWrite) -> Bool {
        guard write.method == .patch else { return true }
        guard case .tags = write.precondition else { return false }
        return !merging.contains(write.table.name)
    }

    /// Returns the position of the write of a record.
    func index(of table: String, _ key: String) -> Int? {
        writes.indices.first { place in
            let isNamed = [keys[place], writes[place].key].contains { $0.utf8.elementsEqual(key.utf8) }
            return isNamed && writes[place].table.name == table
        }
    }

    /// Returns the place of a write; a new record whose id the server gives has no key yet.
    func place(_ index: Int) -> TidemarkError.Place {
        let write = writes[index]
        let key = keys[index]
        let isTemporary = write.operation == .create && Int64(key).map(TemporaryID.isTemporary) ?? false
        return TidemarkError.Place(
            table: write.table.name, key: isTemporary && write.table.keyKind == .integer ? nil : key)
    }

    /// Returns the problem about an error that refuses the change set, with the position of the faulty write.
    ///
    /// Of a CHECK that fails the database names the table alone. Then the position is that of its only write, if any.
    func problem(_ error: TidemarkError) -> Problem {
        let place = error.place
        let named = place.table.flatMap { table in place.key.flatMap { index(of: table, $0) } }
        let ofTable = writes.indices.filter { writes[$0].table.name == place.table }
        return Problem(error, index: named ?? (ofTable.count == 1 ? ofTable.first : nil))
    }
}

/// The verdict on the change set of writes.
enum WriteVerdict: Hashable, Sendable {
    /// A record of a change set: the table, and the key in JSON.
    struct Name: Hashable, Sendable {
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
    static func reasons(in members: [(name: String, value: String)]) -> [ConflictReason] {
        let list = members.first { $0.name == "reasons" }.flatMap { JSONParts.elements(of: $0.value) } ?? []
        return list.compactMap { reason in
            guard let parts = JSONParts.members(of: reason) else { return nil }
            let members = Dictionary(parts.map { ($0.name, $0.value) }) { first, _ in first }
            let text = { (name: String) in members[name].map(JSONText.unquote) ?? "" }
            return ConflictReason(
                table: text("table"), key: members["key"] ?? "",
                columns: members["columns"].flatMap { JSONParts.elements(of: $0) }?.map(JSONText.unquote) ?? [],
                rule: text("rule"), message: text("message"))
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
