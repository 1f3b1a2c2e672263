import TidemarkCore

/// A zone's latest change sets in memory, which most devices miss.
///
/// A value without input or output. It reports the revisions to load, takes them, and answers.
package struct RecentChangeSets: Sendable {
    /// The limits of the cache.
    package struct Bounds: Hashable, Sendable {
        /// The most change sets.
        package var countMax = 1_000
        /// The most bytes of change sets.
        package var bytesMax = 16 << 20

        /// The standard bounds.
        package init() {}
    }

    /// The data that is missing to answer a device.
    package enum Need: Hashable, Sendable {
        /// None.
        case nothing
        case load(ClosedRange<Int64>)
        /// More than the cache may hold.
        case tooMuch
    }

    private let bounds: Bounds
    private var epoch = ""
    private var schema = ""
    /// The entries without a gap, oldest first.
    private var entries: [RecentChangeSet] = []
    private(set) var bytes = 0

    /// Makes an empty cache.
    package init(bounds: Bounds = Bounds()) { self.bounds = bounds }

    /// Returns the data that is missing to answer a device at a revision.
    package func need(after revision: Int64, at head: ZoneHead) -> Need {
        let last = head.state.revision
        guard revision < last else { return .nothing }
        // The device's own revision is needed as well, for its fingerprint.
        guard last - revision < bounds.countMax else { return .tooMuch }
        guard let range, isOf(head) else { return .load(revision...last) }
        if range.upperBound < last {
            return .load((range.lowerBound <= revision ? range.upperBound + 1 : revision)...last)
        }
        return range.lowerBound <= revision ? .nothing : .load(revision...range.lowerBound - 1)
    }

    /// Adds loaded change sets, which are consecutive and oldest first.
    package mutating func take(_ run: [RecentChangeSet], at head: ZoneHead) {
        if !isOf(head) {
            epoch = head.state.epoch
            schema = head.state.schema
            entries = []
        }
        guard let first = run.first, let last = run.last else { return }
        if let end = entries.last, first.revision == end.revision + 1, first.follows(end.chain) {
            entries += run
        } else if let start = entries.first, last.revision == start.revision - 1, start.follows(last.chain) {
            entries = run + entries
        } else if last.revision == head.state.revision {
            entries = run
        }
        // Only the first entry may lack its body.
        if let start = entries.lastIndex(where: { !$0.hasBody }) { entries.removeFirst(start) }
        bytes = entries.reduce(0) { $0 + $1.body.utf8.count }
        trim()
    }

    /// Returns the change sets from a revision to the zone's latest; nil when some are missing.
    func changeSets(after revision: Int64, at head: ZoneHead) -> ArraySlice<RecentChangeSet>? {
        let last = head.state.revision
        guard revision < last else { return [] }
        guard isOf(head), let range, range.contains(revision + 1), range.contains(last) else { return nil }
        return entries[index(revision + 1)...index(last)]
    }

    /// Returns the fingerprint of the zone's rows at a revision, if the cache has it.
    func fingerprint(at revision: Int64, at head: ZoneHead) -> Fingerprint? {
        if revision == head.state.revision { return head.fingerprint }
        guard isOf(head), let range, range.contains(revision) else { return nil }
        return entries[index(revision)].fingerprint
    }

    /// Returns the chain of the history at a revision, if the cache has it.
    func chain(through revision: Int64, at head: ZoneHead) -> String? {
        if revision == head.state.revision { return head.chain }
        guard isOf(head), let range, range.contains(revision) else { return nil }
        return entries[index(revision)].chain
    }

    private var range: ClosedRange<Int64>? {
        guard let first = entries.first, let last = entries.last else { return nil }
        return first.revision...last.revision
    }

    private func index(_ revision: Int64) -> Int { Int(revision - entries[0].revision) }

    /// Whether the entries belong to the zone's current history.
    private func isOf(_ head: ZoneHead) -> Bool {
        guard epoch == head.state.epoch, schema == head.state.schema else { return false }
        guard let range, range.upperBound >= head.state.revision else { return true }
        return range.contains(head.state.revision) && entries[index(head.state.revision)].chain == head.chain
    }

    private mutating func trim() {
        var excess = max(0, entries.count - bounds.countMax)
        for entry in entries.prefix(excess) { bytes -= entry.body.utf8.count }
        while bytes > bounds.bytesMax, excess < entries.count {
            bytes -= entries[excess].body.utf8.count
            excess += 1
        }
        entries.removeFirst(excess)
    }
}
