import TidemarkCore

/// SQL for the members that stand for tables and columns in JSON: see ``TidemarkCore/WireName``.
package enum MemberSQL {
    package static func name(of member: String) -> String {
        "iif(substr(\(member), 1, 1) = '\(WireName.escape)', substr(\(member), 2), \(member))"
    }

    package static func member(column name: String) -> String {
        let reserved = WireName.recordMembers.sorted().map { SQLText.literal($0) }.joined(separator: ", ")
        return """
            iif(\(name) IN (\(reserved)) OR substr(\(name), 1, 1) = '\(WireName.escape)', \
            '\(WireName.escape)' || \(name), \(name))
            """
    }

    /// Returns the JSON path of a column in an image of a record.
    package static func path(_ column: String) -> String { "$.\"\(WireName.member(column: column))\"" }
}
