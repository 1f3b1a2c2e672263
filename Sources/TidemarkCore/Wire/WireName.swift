/// The names of the protocol's JSON, in one place.
///
/// `Docs/PROTOCOL.md` explains each.
public enum WireName {
    /// The members of a request.
    public static let requestMembers: Set<String> = [
        "maxRevision", "changeSets", "device", "epoch", "schema", "limit", "overruled", "lap", "recall", "known",
        "fingerprint", "wait", "settled", "delta", "echo", "answer", "related",
    ]
    /// The members of a request to compare rows.
    public static let comparisonMembers: Set<String> = ["epoch", "schema", "revision", "recompute", "ranges"]
    /// The members of one of its ranges.
    public static let rangeMembers: Set<String> = ["table", "from", "to", "rows", "fingerprint", "send"]
    /// The members of a change set that are not tables.
    public static let changeSetMembers: Set<String> = [
        "types", "id", "after", "revision", "conflict", "reasons", "time", "overruled",
    ]
    /// The members of one table's part of a change set.
    public static let tableMembers: Set<String> = ["create", "update", "delete", "attributes"]
    /// The members of a record's attributes that are not columns.
    public static let recordMembers: Set<String> = ["revision", "__oldId__"]
}
