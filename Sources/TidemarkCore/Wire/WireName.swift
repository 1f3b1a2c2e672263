/// The member names of the protocol's JSON.
///
/// `Docs/PROTOCOL.md` explains each.
package enum WireName {
    /// The members of a request.
    package static let requestMembers: Set<String> = [
        "maxRevision", "changeSets", "device", "epoch", "schema", "limit", "overruled", "lap", "recall", "known",
        "fingerprint", "wait", "settled", "delta", "echo", "answer", "related",
    ]
    /// The members of a request to compare rows.
    package static let comparisonMembers: Set<String> = ["epoch", "schema", "revision", "recompute", "ranges"]
    /// The members of a range in that request.
    package static let rangeMembers: Set<String> = ["table", "from", "to", "rows", "fingerprint", "send"]
    /// The members of a change set that are not tables.
    package static let changeSetMembers: Set<String> = [
        "types", "id", "after", "revision", "conflict", "reasons", "time", "overruled",
    ]
    /// The members of a table's part of a change set.
    package static let tableMembers: Set<String> = ["create", "update", "delete", "attributes"]
    /// The members of a record's attributes that are not columns.
    package static let recordMembers: Set<String> = ["revision", "__oldId__"]
}
