/// Divides a store's readers among those who ask, so that one sender's long questions keep nobody else waiting.
///
/// A store has more readers than places: the rest serve commits and the short reads of writes. Who finds no place
/// waits, and of those who wait, the first whose sender has less than its share gets the next one.
package actor ReaderPlaces {
    /// For whom a store reads.
    package enum Reader: Hashable, Sendable {
        /// A sender, with a share of its own: a user, or an address without a token.
        case sender(String)
        /// Every sender of a server without users; only the number of places bounds it.
        case anybody
        /// The files and digests that the store makes for all.
        case maker
    }

    private let placesMax: Int
    private let share: Int
    private var taken: [Reader: Int] = [:]
    private var waiting: [(reader: Reader, continuation: CheckedContinuation<Void, Never>)] = []

    /// Creates places; one sender has at most a share of them.
    package init(_ placesMax: Int, share: Int) {
        self.placesMax = max(1, placesMax)
        self.share = max(1, share)
    }

    /// Creates the places of a store with this many readers; a quarter, and one, serve commits.
    package init(readers: Int) {
        let places = readers - 1 - readers / 4
        self.init(places, share: places / 2)
    }

    package nonisolated func run<Result: Sendable>(for reader: Reader, _ body: () async throws -> Result) async throws
        -> Result
    {
        await take(reader)
        do {
            let result = try await body()
            await leave(reader)
            return result
        } catch {
            await leave(reader)
            throw error
        }
    }

    private func take(_ reader: Reader) async {
        guard !hasRoom(for: reader) else { return taken[reader, default: 0] += 1 }
        await withCheckedContinuation { waiting.append((reader, $0)) }
    }

    private func leave(_ reader: Reader) {
        let rest = (taken[reader] ?? 1) - 1
        taken[reader] = rest > 0 ? rest : nil
        while let index = waiting.firstIndex(where: { hasRoom(for: $0.reader) }) {
            let next = waiting.remove(at: index)
            taken[next.reader, default: 0] += 1
            next.continuation.resume()
        }
    }

    private func hasRoom(for reader: Reader) -> Bool {
        let all = taken.values.reduce(0, +)
        return all < placesMax && (reader == .anybody || taken[reader, default: 0] < share)
    }
}

extension ReaderPlaces.Reader {
    package init(_ access: ZoneAccess) {
        switch access.caller {
        case .local: self = .anybody
        case .anonymous: self = .sender("\n\(access.network ?? "")")
        case .user(let user): self = .sender(user.id)
        }
    }
}
