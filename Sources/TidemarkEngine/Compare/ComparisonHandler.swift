package import TidemarkCore

/// Finds the records in which a device differs from the server: `POST /fingerprints`.
///
/// The device divides its keys into ranges, and sends the row count and fingerprint of each. The
/// server answers which ranges differ. It sends its own rows for the ranges that the device
/// requests. Each exchange narrows the difference by one level.
package struct ComparisonHandler: Sendable {
    let limits: Limits

    package init(limits: Limits = .standard) { self.limits = limits }

    /// Answers a request, and writes only the server's own bookkeeping; the caller rolls back if it throws.
    package func handle(_ body: [UInt8], in transaction: some CommitTransaction) throws -> String {
        let request = try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
            var reader = try JSONReader(bytes, depthMax: limits.jsonDepthMax)
            return try ComparisonRequest.read(&reader, limits: limits)
        }
        try transaction.absorbOutsideChanges()
        let zone = try transaction.head().state
        try check(request, against: zone)
        if request.recompute == true { try transaction.recomputeFingerprint() }
        let fingerprint = try transaction.fingerprint(at: zone.revision)
        // At another revision the rows differ anyway: the device catches up first.
        let comparison =
            request.revision == zone.revision
            ? try RangeRows(of: transaction).compare(request.ranges, limits: limits) {
                try transaction.presentRows($0)
            } : Comparison(differing: [], changeSet: nil)
        return answer(comparison, zone: zone, fingerprint: fingerprint)
    }

    private func check(_ request: ComparisonRequest, against zone: ZoneState) throws {
        if let epoch = request.epoch, epoch != zone.epoch {
            throw TidemarkError(
                .epochMismatch, "The zone has another history than the one this device knows.",
                fix: "Take a new snapshot; the outbox is kept and offered again.")
        }
        if let schema = request.schema, schema != zone.schema {
            throw TidemarkError(
                .schemaMismatch, "Rows of tables of another shape cannot be compared.",
                fix: "Give both sides the same tables and columns, then sync again.")
        }
    }

    private func answer(_ comparison: Comparison, zone: ZoneState, fingerprint: Fingerprint?) -> String {
        let fingerprintMember = fingerprint.map { #""fingerprint":"\#($0)","# } ?? ""
        let changeSet = comparison.changeSet.map { #","changeSet":\#($0)"# } ?? ""
        let differing = comparison.differing.map(String.init).joined(separator: ",")
        return #"{"revision":\#(zone.revision),"epoch":"\#(zone.epoch)",\#(fingerprintMember)"#
            + #""differing":[\#(differing)]\#(changeSet)}"#
    }
}

package struct Comparison: Hashable, Sendable {
    /// The indexes of the ranges that differ.
    package let differing: [Int]
    /// The server's rows of the differing ranges that the device requested, as a change set; nil for none.
    package let changeSet: String?
}
