public import TidemarkCore

/// Helps a device to find the records in which it differs: `POST /fingerprints`.
///
/// The device divides its keys into ranges and says how many rows each has, and their fingerprint.
/// The server says which ranges are others here, and sends its rows of those for which the device
/// asks. So the difference is narrowed down level by level, in one exchange each.
public struct ComparisonHandler: Sendable {
    let limits: Limits

    /// Makes a handler with limits.
    public init(limits: Limits = .standard) { self.limits = limits }

    /// Answers a request; what it writes is only what the server keeps about itself.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError``; the caller rolls back then.
    public func handle(_ body: [UInt8], in transaction: some StoreTransaction) throws -> String {
        let request = try read(body)
        try transaction.absorbOutsideChanges()
        let zone = try transaction.zone()
        try check(request, against: zone)
        if request.recompute == true { try transaction.recomputeFingerprint() }
        let fingerprint = try transaction.fingerprint(at: zone.revision)
        // At another revision the rows are others anyway: the device has to take those in first.
        let compared =
            request.revision == zone.revision
            ? try transaction.compare(request.ranges, limits: limits) : Comparison(differing: [], changeSet: nil)
        return answer(compared, zone, fingerprint)
    }

    private func check(_ request: ComparisonRequest, against zone: ZoneState) throws {
        if let epoch = request.epoch, epoch != zone.epoch {
            throw TidemarkError(
                .epochMismatch,
                "The zone has another history than the one this device knows.",
                fix: "Take a new snapshot; the outbox is kept and offered again."
            )
        }
        if let schema = request.schema, schema != zone.schema {
            throw TidemarkError(
                .schemaMismatch,
                "Rows of tables of another shape cannot be compared.",
                fix: "Give both sides the same tables and columns, then sync again."
            )
        }
    }

    private func answer(_ compared: Comparison, _ zone: ZoneState, _ fingerprint: Fingerprint?) -> String {
        let print = fingerprint.map { #""fingerprint":"\#($0)","# } ?? ""
        let changeSet = compared.changeSet.map { #","changeSet":\#($0)"# } ?? ""
        let differing = compared.differing.map(String.init).joined(separator: ",")
        return #"{"revision":\#(zone.revision),"epoch":"\#(zone.epoch)",\#(print)"#
            + #""differing":[\#(differing)]\#(changeSet)}"#
    }
}

/// What a comparison of ranges found.
public struct Comparison: Hashable, Sendable {
    /// The indexes of the ranges that differ.
    public let differing: [Int]
    /// The server's rows of those whose rows were asked for, as a change set; nil when there are
    /// none.
    public let changeSet: String?

    /// Makes a result.
    public init(differing: [Int], changeSet: String?) {
        self.differing = differing
        self.changeSet = changeSet
    }
}
