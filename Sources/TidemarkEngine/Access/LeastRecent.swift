/// A dictionary of bounded size, in constant time: the entry whose last use is oldest makes room for a new one.
package struct LeastRecent<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry {
        var key: Key
        var value: Value
        /// The place of the entry that was used just before this one.
        var older = Self.nowhere
        /// The place of the entry that was used just after this one.
        var newer = Self.nowhere

        static var nowhere: Int { -1 }
    }

    private let countMax: Int
    private var entries: [Entry] = []
    private var places: [Key: Int] = [:]
    private var oldest = Entry.nowhere
    private var newest = Entry.nowhere

    /// Makes an empty dictionary of at most `countMax` entries.
    package init(countMax: Int) { self.countMax = max(1, countMax) }

    package var count: Int { entries.count }
    package var values: [Value] { entries.map(\.value) }

    /// Returns the value of a key without a use of the entry.
    package func value(of key: Key) -> Value? { places[key].map { entries[$0].value } }

    /// Returns the value of a key, and counts as a use of the entry.
    package mutating func use(_ key: Key) -> Value? {
        guard let place = places[key] else { return nil }
        unlink(place)
        linkAsNewest(place)
        return entries[place].value
    }

    /// Sets the value of a key, and counts as a use of the entry.
    package mutating func set(_ value: Value, for key: Key) {
        if let place = places[key] {
            entries[place].value = value
            unlink(place)
            linkAsNewest(place)
            return
        }
        let place: Int
        if entries.count < countMax {
            place = entries.count
            entries.append(Entry(key: key, value: value))
        } else {
            place = oldest
            unlink(place)
            places[entries[place].key] = nil
            entries[place].key = key
            entries[place].value = value
        }
        places[key] = place
        linkAsNewest(place)
    }

    package mutating func removeAll() { self = LeastRecent(countMax: countMax) }

    private mutating func unlink(_ place: Int) {
        let older = entries[place].older
        let newer = entries[place].newer
        if older == Entry.nowhere { oldest = newer } else { entries[older].newer = newer }
        if newer == Entry.nowhere { newest = older } else { entries[newer].older = older }
    }

    private mutating func linkAsNewest(_ place: Int) {
        entries[place].older = newest
        entries[place].newer = Entry.nowhere
        if newest == Entry.nowhere { oldest = place } else { entries[newest].newer = place }
        newest = place
    }
}
