/// The due events, by virtual time: a binary heap.
///
/// Equal times come in the order of the tie-breaker, then in the order of entry.
struct EventHeap<Event> {
    private struct Entry {
        let time: Int64
        let tie: Int
        let order: Int
        let event: Event

        func comes(before other: Entry) -> Bool { (time, tie, order) < (other.time, other.tie, other.order) }
    }

    private var entries: [Entry] = []
    private var count = 0

    /// Whether no event is due any more.
    var isEmpty: Bool { entries.isEmpty }

    /// Adds an event.
    mutating func push(_ event: Event, at time: Int64, tie: Int) {
        count += 1
        entries.append(Entry(time: time, tie: tie, order: count, event: event))
        var child = entries.count - 1
        while child > 0, entries[child].comes(before: entries[(child - 1) / 2]) {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Takes the first event.
    mutating func pop() -> (time: Int64, event: Event)? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return (first.time, first.event) }
        entries[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < entries.count && entries[child].comes(before: entries[least]) { least = child }
            guard least != parent else { return (first.time, first.event) }
            entries.swapAt(parent, least)
            parent = least
        }
    }
}
