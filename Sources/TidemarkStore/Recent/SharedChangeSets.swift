import TidemarkCore

/// A cache of change sets that several servers share, outside of their processes.
///
/// Nobody depends on it, and nobody believes it: what comes from there is checked by the chain of
/// the history. Whatever goes wrong is an empty answer, soon. Safe to use from any task.
package protocol SharedChangeSets: Sendable {
    /// The change sets of a range of revisions, oldest first, or as many of them as are there.
    func changeSets(_ range: ClosedRange<Int64>, of zone: SharedZone) async -> [RecentChangeSet]

    /// Offers change sets that have been committed; returns at once.
    func keep(_ run: [RecentChangeSet], of zone: SharedZone)
}

/// By what a shared cache knows a zone's history.
package struct SharedZone: Hashable, Sendable {
    /// The zone's name.
    package let zone: String
    /// Its epoch.
    package let epoch: String
    /// The hash of its schema, to which the fingerprints belong.
    package let schema: String

    /// Makes a name.
    package init(zone: String, epoch: String, schema: String) {
        self.zone = zone
        self.epoch = epoch
        self.schema = schema
    }
}

extension [RecentChangeSet] {
    /// Whether these are the change sets of a range, up to the end of a history that is known.
    ///
    /// The first one's content is not told by this, since the chain before it is not known; nor is
    /// it used before the one before it is.
    func isAuthentic(_ range: ClosedRange<Int64>, endingIn chain: String) -> Bool {
        map(\.revision) == Array<Int64>(range) && last?.chain == chain
            && zip(self, dropFirst()).allSatisfy { $1.follows($0.chain) }
    }
}
