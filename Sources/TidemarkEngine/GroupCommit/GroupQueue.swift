/// The requests that wait for one zone, in groups to commit together.
///
/// One group is in flight at a time; requests that arrive meanwhile join a later one. A group takes
/// all waiting entries in order of arrival, up to the bounds. So no request waits for others to
/// arrive, and none overtakes another.
package struct GroupQueue<Entry> {
    /// The limits of one group.
    package struct Bounds: Hashable, Sendable {
        /// The most entries.
        package let entriesMax: Int
        /// The most bytes; one entry alone may be more.
        package let bytesMax: Int

        /// Makes bounds.
        package init(entriesMax: Int, bytesMax: Int) {
            self.entriesMax = max(1, entriesMax)
            self.bytesMax = bytesMax
        }
    }

    /// Identifies an entry while it waits.
    package typealias Ticket = UInt64

    fileprivate struct Position {
        let ticket: Ticket
        let entry: Entry
        let bytes: Int
    }

    private let bounds: Bounds
    private var waiting: [Position] = []
    private var inFlight: [Position] = []

    /// Makes an empty queue.
    package init(bounds: Bounds) { self.bounds = bounds }

    /// The number of waiting entries.
    package var count: Int { waiting.count }

    /// Appends an entry behind all others.
    package mutating func append(_ entry: Entry, bytes: Int, ticket: Ticket) {
        waiting.append(Position(ticket: ticket, entry: entry, bytes: bytes))
    }

    /// Starts the next group; nil if one is in flight or no entry waits.
    package mutating func next() -> [Entry]? {
        guard inFlight.isEmpty, let first = waiting.first else { return nil }
        var count = 1
        var bytes = first.bytes
        while count < min(waiting.count, bounds.entriesMax), bytes + waiting[count].bytes <= bounds.bytesMax {
            bytes += waiting[count].bytes
            count += 1
        }
        inFlight = Array(waiting.prefix(count))
        waiting.removeFirst(count)
        return inFlight.map(\.entry)
    }

    /// Ends the group in flight, and requeues its unanswered entries at the front.
    package mutating func finishGroup(answeredCount: Int) {
        waiting.insert(contentsOf: inFlight.dropFirst(answeredCount), at: 0)
        inFlight = []
    }

    /// Removes a waiting entry; nil if it is not in the queue, for instance because it is in flight.
    package mutating func leave(_ ticket: Ticket) -> Entry? {
        guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return waiting.remove(at: index).entry
    }
}

extension GroupQueue: Sendable where Entry: Sendable {}
extension GroupQueue.Position: Sendable where Entry: Sendable {}
