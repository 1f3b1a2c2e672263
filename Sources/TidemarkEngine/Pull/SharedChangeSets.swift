import TidemarkCore

/// A cache of change sets that several server processes share.
///
/// The server works without it and does not trust it: the chain of the history proves its entries.
/// Every failure gives an empty result quickly. Safe to use from any task.
package protocol SharedChangeSets: Sendable {
    /// Returns the change sets of a range of revisions, oldest first, as far as the cache has them.
    func changeSets(_ range: ClosedRange<Int64>, of zone: SharedZone) async -> [RecentChangeSet]

    /// Offers committed change sets; returns at once.
    func keep(_ run: [RecentChangeSet], of zone: SharedZone)
}

/// Identifies a zone's history in a shared cache.
package struct SharedZone: Hashable, Sendable {
    /// The zone's name.
    package let zone: String
    package let epoch: String
    /// The hash of the schema that the fingerprints cover.
    package let schema: String
}

extension [RecentChangeSet] {
    /// Whether these are the change sets of a range that ends in a known chain.
    ///
    /// This does not prove the first body, because the chain before it is missing. The cache only
    /// uses that body once it has the previous entry.
    func isAuthentic(_ range: ClosedRange<Int64>, endingIn chain: String) -> Bool {
        map(\.revision) == Array<Int64>(range) && last?.chain == chain
            && zip(self, dropFirst()).allSatisfy { $1.follows($0.chain) }
    }
}
