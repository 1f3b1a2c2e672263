import TidemarkCore

/// A request that waits for news: long polling.
public struct Hold: Hashable, Sendable {
    /// The zone's epoch when the hold began.
    package let epoch: String
    /// The zone's revision at that time, which the device has.
    package let revision: Int64
    /// How long the request may be held, in milliseconds.
    package let milliseconds: Int

    /// Makes a hold.
    package init(epoch: String, revision: Int64, milliseconds: Int) {
        self.epoch = epoch
        self.revision = revision
        self.milliseconds = milliseconds
    }

    /// Whether a body may contain a waiting request, judged by its bytes alone.
    ///
    /// Member names are unescaped, so a body without `"wait"` does not wait. A large body has change
    /// sets and is not held.
    package static func isPossible(for body: [UInt8]) -> Bool { body.count <= bytesMax && body.contain(member) }

    private static let bytesMax = 1 << 16
    private static let member = Array(#""wait""#.utf8)
}

extension SyncHandler {
    /// Returns a hold if the request wants to wait, has nothing to send, and there is no news.
    ///
    /// It refuses the same requests as ``answer(_:from:in:)``, so no client waits for a refusal. It
    /// records no lap and no acknowledgement. The caller handles the request once, afterwards.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused.
    package func hold(_ body: [UInt8], from caller: Caller, in transaction: some StoreTransaction) throws -> Hold? {
        let request = try transaction.stage(body, limits: limits).from(caller)
        guard let wait = request.wait, wait > 0, request.question == nil, request.lend.isEmpty,
            request.changeSets.isEmpty,
            request.echo != .verdicts
        else { return nil }
        try transaction.absorbOutsideChanges()
        let zone = try transaction.zone()
        try admit(request, from: caller, to: zone, in: transaction)
        guard request.maxRevision == zone.revision, hasShape(of: zone, request) else { return nil }
        let notes = try request.device.map {
            try transaction.overruledNotes(device: $0, after: request.overruled, through: zone.revision, limit: 1)
        }
        guard notes?.isEmpty ?? true else { return nil }
        return Hold(epoch: zone.epoch, revision: zone.revision, milliseconds: min(wait, limits.waitMillisecondsMax))
    }
}
