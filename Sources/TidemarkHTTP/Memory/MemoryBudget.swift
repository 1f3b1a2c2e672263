/// Which requests and answers in flight may take how much memory: a decision, without any waiting.
///
/// Every exchange has a share, from the first byte of its request to the last byte of its answer.
/// Small shares have a reserve that no large one can use. The rest obeys one rule: the body that
/// has been read for longest can always be read to its end. Everybody else leaves room for that,
/// so bodies that grow at the same time cannot hold up one another for ever.
struct MemoryBudget: Sendable {
    /// How much there is.
    struct Bounds: Hashable, Sendable {
        /// All shares together, in bytes.
        let bytesMax: Int
        /// The share of the largest body.
        let bodyBytesMax: Int
        /// Shares up to this size are small.
        var smallBytesMax = 128 << 10

        /// The bytes that only small shares use.
        var reservedBytes: Int { bytesMax / 8 }
        /// The bytes of all large shares together.
        var largeBytesMax: Int { bytesMax - reservedBytes }
        /// Whether the largest body can be read at all.
        var areSufficient: Bool { largeBytesMax >= bodyBytesMax }
    }

    /// The name of a share.
    typealias Ticket = UInt64

    private struct Share {
        enum Phase { case reading, handled, answering }
        var bytes = 0
        var isLarge = false
        var phase = Phase.reading
    }

    private let bounds: Bounds
    private var shares: [Ticket: Share] = [:]
    private var tickets: Ticket = 0
    /// The large shares whose bodies are being read, the oldest first.
    private var reading: [Ticket] = []
    /// The shares that wait for more, in the order in which they asked.
    private var waiting: [(ticket: Ticket, bytes: Int)] = []
    private var smallBytes = 0
    private var largeBytes = 0
    /// The part of the large shares whose requests are being handled: it is given back soon.
    private var handledBytes = 0
    /// The part of the large shares whose answers are being sent.
    private var answeredBytes = 0

    /// Makes a budget of which nothing is taken.
    init(bounds: Bounds) { self.bounds = bounds }

    /// The bytes that are taken.
    var bytes: Int { smallBytes + largeBytes }

    /// Begins a share of nothing.
    mutating func open() -> Ticket {
        tickets += 1
        shares[tickets] = Share()
        return tickets
    }

    /// Enlarges the share of a body that is being read, to `bytes` in all.
    ///
    /// - Returns: Whether it may grow. If not, it waits: ``admit()`` returns it, or ``leave(_:)``
    ///   ends its wait.
    mutating func grow(_ ticket: Ticket, to bytes: Int) -> Bool {
        if take(bytes, for: ticket) { return true }
        waiting.append((ticket, bytes))
        return false
    }

    /// Ends the wait of a share.
    ///
    /// - Returns: Whether it was waiting.
    mutating func leave(_ ticket: Ticket) -> Bool {
        guard let place = waiting.firstIndex(where: { $0.ticket == ticket }) else { return false }
        waiting.remove(at: place)
        return true
    }

    /// The body has been read: its share does not grow any more.
    mutating func finishReading(_ ticket: Ticket) {
        guard var share = shares[ticket], share.phase == .reading else { return }
        discount(share, of: ticket)
        share.phase = .handled
        count(share, of: ticket)
    }

    /// Replaces the share of a request by that of its answer.
    ///
    /// An answer that is larger than all there is passes when no other large one is being sent:
    /// otherwise it could never be sent.
    ///
    /// - Returns: Whether there is room; if not, the share is what it was before.
    mutating func answer(_ ticket: Ticket, bytes: Int) -> Bool {
        guard let old = shares[ticket] else { return false }
        discount(old, of: ticket)
        var share = Share(bytes: bytes, phase: .answering)
        let isSmall = bytes <= bounds.smallBytesMax && smallBytes + bytes <= bounds.reservedBytes
        share.isLarge = !isSmall
        let isSmaller = old.phase == .answering && bytes <= old.bytes
        let fits = isSmall || isSmaller || answeredBytes == 0 || hasRoom(for: bytes, besides: nil)
        count(fits ? share : old, of: ticket)
        return fits
    }

    /// Gives a share back.
    mutating func close(_ ticket: Ticket) {
        guard let share = shares.removeValue(forKey: ticket) else { return }
        discount(share, of: ticket)
        shares[ticket] = nil
        _ = leave(ticket)
    }

    /// The shares that waited and have what they asked for now.
    mutating func admit() -> [Ticket] {
        var admitted: [Ticket] = []
        var rest: [(ticket: Ticket, bytes: Int)] = []
        for (ticket, bytes) in waiting {
            if take(bytes, for: ticket) { admitted.append(ticket) } else { rest.append((ticket, bytes)) }
        }
        waiting = rest
        return admitted
    }
}

extension MemoryBudget {
    private mutating func take(_ bytes: Int, for ticket: Ticket) -> Bool {
        guard var share = shares[ticket], bytes > share.bytes else { return true }
        let more = bytes - share.bytes
        let isSmall = !share.isLarge && bytes <= bounds.smallBytesMax && smallBytes + more <= bounds.reservedBytes
        let need = share.isLarge ? more : bytes
        guard isSmall || hasRoom(for: need, besides: ticket) else { return false }
        discount(share, of: ticket, leaves: false)
        share.bytes = bytes
        share.isLarge = !isSmall
        count(share, of: ticket)
        return true
    }

    /// Whether so many bytes leave what the oldest body may still need; when none is being read,
    /// what the next one may need.
    private func hasRoom(for need: Int, besides ticket: Ticket?) -> Bool {
        let free = bounds.largeBytesMax - largeBytes
        guard need <= free else { return false }
        let oldest = reading.first ?? ticket
        if let oldest, oldest == ticket { return true }
        let held = oldest.flatMap { shares[$0]?.bytes } ?? 0
        return free - need + handledBytes >= bounds.bodyBytesMax - held
    }

    private mutating func count(_ share: Share, of ticket: Ticket) {
        shares[ticket] = share
        guard share.isLarge else {
            smallBytes += share.bytes
            return
        }
        largeBytes += share.bytes
        switch share.phase {
        case .reading: if !reading.contains(ticket) { reading.append(ticket) }
        case .handled: handledBytes += share.bytes
        case .answering: answeredBytes += share.bytes
        }
    }

    /// Takes a share out of the sums; one that `leaves` gives up its place among the oldest too.
    private mutating func discount(_ share: Share, of ticket: Ticket, leaves: Bool = true) {
        guard share.isLarge else {
            smallBytes -= share.bytes
            return
        }
        largeBytes -= share.bytes
        switch share.phase {
        case .reading: if leaves { reading.removeAll { $0 == ticket } }
        case .handled: handledBytes -= share.bytes
        case .answering: answeredBytes -= share.bytes
        }
    }
}
