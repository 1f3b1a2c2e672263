/// The member names of the protocol's JSON.
///
/// `Docs/PROTOCOL.md` explains each.
package enum WireName {
    /// The members of a change set that are not tables.
    package static let changeSetMembers: Set<String> = [
        "types", "id", "after", "revision", "conflict", "reasons", "time", "overruled",
    ]
    /// The members of a table's part of a change set.
    package static let tableMembers: Set<String> = ["create", "update", "delete", "attributes"]
    /// The members of a record's attributes that are not columns.
    package static let recordMembers: Set<String> = ["revision", "__oldId__"]

    /// The character before a table's or column's name that the protocol would otherwise read as its own.
    package static let escape: Character = "="

    /// Returns the member that stands for a table in a change set.
    package static func member(table name: String) -> String { member(name, changeSetMembers) }

    /// Returns the member that stands for a column in a record's attributes, and in images of records.
    package static func member(column name: String) -> String { member(name, recordMembers) }

    /// Returns the name that a member stands for.
    package static func name(of member: String) -> String {
        member.first == escape ? String(member.dropFirst()) : member
    }

    private static func member(_ name: String, _ reserved: Set<String>) -> String {
        reserved.contains(name) || name.first == escape ? "\(escape)\(name)" : name
    }
}
