/// Who waits for one zone, and what is committed together next.
///
/// One group is in flight at a time; whoever comes meanwhile is in a later one. Groups are taken in
/// order of arrival and are as large as what waits, up to the bounds, so nobody waits for others to
/// come, and nobody is overtaken.
public struct GroupQueue<Entry> {
    /// How much one group may be.
    public struct Bounds: Hashable, Sendable {
        /// The most entries.
        public let entriesMax: Int
        /// The most bytes; one entry alone may be more.
        public let bytesMax: Int

        /// Makes bounds.
        public init(entriesMax: Int, bytesMax: Int) {
            self.entriesMax = max(1, entriesMax)
            self.bytesMax = bytesMax
        }
    }

    /// By which an entry is known while it waits.
    public typealias Ticket = UInt64

    fileprivate struct Place {
        let ticket: Ticket
        let entry: Entry
        let bytes: Int
    }

    private let bounds: Bounds
    private var waiting: [Place] = []
    private var flying: [Place] = []

    /// Makes a queue in which nobody waits.
    public init(bounds: Bounds) { self.bounds = bounds }

    /// How many wait.
    public var count: Int { waiting.count }

    /// Takes an entry in, behind all others.
    public mutating func append(_ entry: Entry, bytes: Int, ticket: Ticket) {
        waiting.append(Place(ticket: ticket, entry: entry, bytes: bytes))
    }

    /// Sends the next group off: nil when one is in flight already, or nobody waits.
    public mutating func next() -> [Entry]? {
        guard flying.isEmpty, let first = waiting.first else { return nil }
        var count = 1
        var bytes = first.bytes
        while count < min(waiting.count, bounds.entriesMax), bytes + waiting[count].bytes <= bounds.bytesMax {
            bytes += waiting[count].bytes
            count += 1
        }
        flying = Array(waiting.prefix(count))
        waiting.removeFirst(count)
        return flying.map(\.entry)
    }

    /// Ends the group in flight, of which the first `answered` have got their answers.
    ///
    /// The others come first again, as they came first before.
    public mutating func land(answered: Int) {
        waiting.insert(contentsOf: flying.dropFirst(answered), at: 0)
        flying = []
    }

    /// Takes somebody out who does not want to wait any longer: nil when they do not wait, be it
    /// because their group is in flight.
    public mutating func leave(_ ticket: Ticket) -> Entry? {
        guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return waiting.remove(at: index).entry
    }
}

extension GroupQueue: Sendable where Entry: Sendable {}
extension GroupQueue.Place: Sendable where Entry: Sendable {}
