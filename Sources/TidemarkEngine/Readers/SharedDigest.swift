package import TidemarkCore

/// Computes digests one at a time, and shares each with all who ask for it meanwhile.
///
/// A digest reads every row. Callers that arrive during a computation of their zone's present state wait for it. The
/// store does not keep a finished one, because a client asks for a digest to find rows that changed without a revision.
package actor SharedDigest {
    /// Computes the digest of a zone's present rows; nil when the zone has rows without a revision.
    package typealias Compute = @Sendable () async throws -> ZoneDigest?

    private struct Computing {
        /// The zone's name, byte for byte: Swift's texts are equal in any normalization.
        let zone: [UInt8]
        let state: ZoneState
        let task: Task<ZoneDigest?, any Error>
    }

    private var computing: Computing?

    package init() {}

    /// Returns a digest of a zone's rows at a state or a later one.
    package func digest(of zone: String, at state: ZoneState, compute: @escaping Compute) async throws -> ZoneDigest? {
        let zone = Array(zone.utf8)
        while true {
            let next = computing ?? begin(zone, at: state, compute: compute)
            guard next.zone == zone, next.state == state else {
                // The callers who asked for this one receive its error.
                _ = await next.task.result
                continue
            }
            return try await next.task.value
        }
    }

    private func begin(_ zone: [UInt8], at state: ZoneState, compute: @escaping Compute) -> Computing {
        let task = Task {
            defer { computing = nil }
            return try await compute()
        }
        let next = Computing(zone: zone, state: state, task: task)
        computing = next
        return next
    }
}
