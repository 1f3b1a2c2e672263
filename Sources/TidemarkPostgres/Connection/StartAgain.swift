import TidemarkCore

/// Another program committed an unabsorbed change of a record that a transaction uses: it starts again.
struct Overtaken: Error {}

/// A program altered the tables after this node last read them: the node follows them and starts again.
struct TablesAltered: Error {}

extension TidemarkError {
    /// The refusal of a zone that does not exist.
    static let unknownZone = TidemarkError(
        .unknownZone,
        "There is no zone of that name that you may read.",
        fix: "Check the zone's name in the path."
    )
}
