package import TidemarkCore
package import TidemarkEngine

/// The latest digests: one is computed at a time, and all who ask for it share it.
///
/// A digest reads every row. Callers that arrive during a computation wait for it, and share the next one if the zone
/// has moved on meanwhile.
package actor DigestCache {
    /// Computes the digest of a zone's present rows; nil when the zone has rows without a revision.
    package typealias Compute = @Sendable () async throws -> ZoneDigest?

    /// A zone's name, byte for byte: Swift's texts are equal in any normalization.
    private typealias Name = [UInt8]

    private struct Computing {
        let zone: Name
        let state: ZoneState
        let task: Task<ZoneDigest?, any Error>
    }

    private struct Known: Sendable {
        let epoch: String
        let schema: String
        let digest: ZoneDigest
    }

    private static let zonesMax = 100

    private var known = LeastRecent<Name, Known>(countMax: zonesMax)
    private var computing: Computing?

    /// Creates a cache without digests.
    package init() {}

    /// Returns a digest of a zone's rows at a state or a later one, computing it if necessary.
    package func digest(of zone: String, at state: ZoneState, compute: @escaping Compute) async throws -> ZoneDigest? {
        let zone = Array(zone.utf8)
        while true {
            if let known = known.use(zone), known.epoch == state.epoch, known.schema == state.schema,
                known.digest.revision >= state.revision
            {
                return known.digest
            }
            let next = computing ?? begin(zone, at: state, compute: compute)
            guard next.zone == zone, next.state == state else {
                // The callers who asked for this one receive its error.
                _ = await next.task.result
                continue
            }
            return try await next.task.value
        }
    }

    private func begin(_ zone: Name, at state: ZoneState, compute: @escaping Compute) -> Computing {
        let task = Task {
            defer { computing = nil }
            let digest = try await compute()
            if let digest {
                known.set(Known(epoch: state.epoch, schema: state.schema, digest: digest), for: zone)
            }
            return digest
        }
        let next = Computing(zone: zone, state: state, task: task)
        computing = next
        return next
    }
}
