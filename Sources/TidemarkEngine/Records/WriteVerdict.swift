package import TidemarkCore

/// The verdict on the change set of writes, from the answer of `/sync`.
package enum WriteVerdict: Hashable, Sendable {
    /// A record of a change set: the table, and the key in JSON.
    package struct Name: Hashable, Sendable {
        let table: String
        let key: String
    }

    /// The writes are done.
    ///
    /// `ids` maps the temporary ids of new records to their ids.
    case committed(revision: Int64, ids: [Name: String])
    /// Nothing is done.
    case refused([Reason])

    /// A reason of a refusal.
    package struct Reason: Hashable, Sendable {
        /// The record that it is about; an empty key if it names columns alone.
        let name: Name
        /// The rule.
        let rule: String
        /// The members of the reason, JSON.
        let members: [String: String]

        /// The reason as JSON, with the key as it stands in a path.
        func json(_ schema: SyncSchema?) -> String {
            var shown: [(name: String, value: String)] = []
            for member in ["table", "key", "columns", "rule", "message"] {
                guard let value = members[member] else { continue }
                let table = member == "key" ? schema?.byName[name.table] : nil
                shown.append((member, table.map { JSONText.quote(RecordPath.text(canonical: value, of: $0)) } ?? value))
            }
            return JSONText.object(shown)
        }
    }

    /// Reads an answer with verdicts alone on one change set.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/internalFailure`` for another answer.
    package init(_ answer: [UInt8]) throws(TidemarkError) {
        guard let answer = JSONParts.members(of: answer), let list = Self.value("changeSets", of: answer),
            let set = JSONParts.elements(of: list)?.first, let members = JSONParts.members(of: set)
        else {
            throw TidemarkError(
                .internalFailure,
                "The store's answer has no verdict.",
                fix: "Please report this."
            )
        }
        guard Self.value("conflict", of: members) == "false",
            let revision = Self.value("revision", of: members).flatMap({ Int64($0) })
        else {
            self = .refused(Self.objects("reasons", of: members).map(Self.reason))
            return
        }
        self = .committed(revision: revision, ids: Self.ids(members))
    }

    private typealias Members = [(name: String, value: String)]

    private static func value(_ name: String, of members: Members) -> String? {
        members.first { $0.name == name }?.value
    }

    /// Returns the reasons in the body of a refused change set.
    static func reasons(in body: [UInt8]) -> [Reason] {
        objects("reasons", of: JSONParts.members(of: body) ?? []).map(Self.reason)
    }

    /// Returns the members of each object in an array.
    private static func objects(_ name: String, of members: Members) -> [Members] {
        value(name, of: members).flatMap { JSONParts.elements(of: $0) }?.compactMap { JSONParts.members(of: $0) } ?? []
    }

    private static func text(_ json: String?) -> String { json.map(JSONText.unquote) ?? "" }

    private static func reason(_ members: Members) -> Reason {
        Reason(
            name: Name(table: text(value("table", of: members)), key: value("key", of: members) ?? ""),
            rule: text(value("rule", of: members)),
            members: Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
        )
    }

    /// The ids of records that the client created under temporary ones.
    private static func ids(_ set: Members) -> [Name: String] {
        var ids: [Name: String] = [:]
        for part in set where !WireName.changeSetMembers.contains(part.name) {
            let members = JSONParts.members(of: part.value) ?? []
            for record in value("attributes", of: members).flatMap({ JSONParts.members(of: $0) }) ?? [] {
                guard let attributes = JSONParts.members(of: record.value),
                    let temporary = value("__oldId__", of: attributes)
                else { continue }
                let table = WireName.name(of: JSONText.unquote("\"\(part.name)\""))
                ids[Name(table: table, key: temporary)] = record.name
            }
        }
        return ids
    }
}
