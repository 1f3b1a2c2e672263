/// The latest change sets of the most recently used zones.
struct RecentZones: Sendable {
    private let bounds: RecentChangeSets.Bounds
    /// The most bytes of change sets of all zones together.
    private let bytesMax: Int
    private var zones: [String: (recent: RecentChangeSets, lastUse: UInt64)] = [:]
    private var bytes = 0
    private var uses: UInt64 = 0

    init(bounds: RecentChangeSets.Bounds = .init(), bytesMax: Int = 64 << 20) {
        self.bounds = bounds
        self.bytesMax = bytesMax
    }

    /// Returns a zone's change sets, and records the use.
    mutating func recent(_ zone: String) -> RecentChangeSets {
        uses += 1
        guard zones[zone] != nil else { return RecentChangeSets(bounds: bounds) }
        zones[zone]?.lastUse = uses
        return zones[zone]?.recent ?? RecentChangeSets(bounds: bounds)
    }

    /// Adds loaded change sets of a zone, and evicts the least recently used zones.
    mutating func take(_ run: [RecentChangeSet], of zone: String, at head: ZoneHead) {
        var recent = recent(zone)
        bytes -= recent.bytes
        recent.take(run, at: head)
        bytes += recent.bytes
        zones[zone] = (recent, uses)
        while bytes > bytesMax, zones.count > 1, let oldest = zones.min(by: { $0.value.lastUse < $1.value.lastUse }) {
            bytes -= oldest.value.recent.bytes
            zones[oldest.key] = nil
        }
    }
}
