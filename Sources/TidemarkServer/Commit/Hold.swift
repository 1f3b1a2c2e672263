import TidemarkCore

/// A request that waits for news: long polling.
public struct Hold: Hashable, Sendable {
    /// The epoch of the zone when it was looked at.
    public let epoch: String
    /// The revision of the zone then, which the device has.
    public let revision: Int64
    /// How long the request may be held, in milliseconds.
    public let milliseconds: Int

    /// Makes a hold.
    public init(epoch: String, revision: Int64, milliseconds: Int) {
        self.epoch = epoch
        self.revision = revision
        self.milliseconds = milliseconds
    }

    /// Whether a body may hold a request that waits, judged by its bytes alone.
    ///
    /// Names are written plainly, so one that has no `"wait"` in it does not wait. A request with
    /// so much in it that it is large brings something, and is not held.
    public static func isPossible(for body: [UInt8]) -> Bool { body.count <= bytesMax && body.contain(member) }

    private static let bytesMax = 1 << 16
    private static let member = Array(#""wait""#.utf8)
}

extension SyncHandler {
    /// Whether a request is to be held until the zone moves on: it asks for that, brings nothing,
    /// and there is nothing to tell.
    ///
    /// Refuses what ``handle(_:in:)`` refuses, so that nobody waits for a refusal, and counts
    /// nothing: not as a lap, nor as anything taken in. The request is handled afterwards, once.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused.
    public func hold(_ body: [UInt8], in transaction: some StoreTransaction) throws -> Hold? {
        let request = try transaction.stage(body, limits: limits)
        guard let wait = request.wait, wait > 0, request.question == nil, request.changeSets.isEmpty,
            request.echo != .verdicts
        else { return nil }
        try transaction.absorbOutsideChanges()
        let zone = try transaction.zone()
        try admit(request, to: zone, in: transaction)
        guard request.maxRevision == zone.revision, hasShape(of: zone, request) else { return nil }
        let notes = try request.device.map {
            try transaction.overruled(device: $0, taken: request.overruled, through: zone.revision, limit: 1)
        }
        guard notes?.isEmpty ?? true else { return nil }
        return Hold(epoch: zone.epoch, revision: zone.revision, milliseconds: min(wait, limits.waitMillisecondsMax))
    }
}
