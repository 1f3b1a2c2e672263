/// Ids that a server lends to one device: a place of equal width in each stride of a region.
///
/// SQLite draws the next id above the highest row, also above those of others, so a contiguous range is of no use
/// after a row of another device with a higher id arrives. With a place in each stride, the device goes on
/// in its next place above that row, at once and without the server.
package struct LentIDs: Hashable, Sendable {
    /// The first id of the first place.
    package let first: Int64
    /// The last id of the region.
    package let last: Int64
    /// The distance between the places.
    package let stride: Int64
    /// The ids in each place.
    package let width: Int64

    /// Makes lent ids; nil if the numbers describe none.
    package init?(first: Int64, last: Int64, stride: Int64, width: Int64) {
        guard (0...TemporaryID.permanentMax).contains(last), (0...last).contains(first),
            (1...TemporaryID.permanentMax).contains(stride), (1...stride).contains(width)
        else { return nil }
        self.first = first
        self.last = last
        self.stride = stride
        self.width = width
    }

    /// Returns the lowest id from `least` on in whose place `room` ids follow or the place begins.
    package func next(from least: Int64, room: Int64 = 1) -> Int64? {
        guard least > first else { return first + width - 1 <= last ? first : nil }
        guard least <= last else { return nil }
        let place = first + (least - first) / stride * stride
        if place + width - 1 <= last, least == place || least + room <= place + width { return least }
        let next = place + stride
        return next + width - 1 <= last ? next : nil
    }

    package func contains(_ id: Int64) -> Bool { (first...last).contains(id) && (id - first) % stride < width }

    package func containsSQL(_ id: String) -> String {
        "(\(id) BETWEEN \(first) AND \(last) AND (\(id) - \(first)) % \(stride) < \(width))"
    }

    /// Returns the last id of an id's place.
    package func end(of id: Int64) -> Int64 { id - (id - first) % stride + width - 1 }
    /// Returns how many ids of the places are below an id of a place.
    package func ordinal(of id: Int64) -> Int64 { (id - first) / stride * width + (id - first) % stride }

    /// The number of ids in all places.
    package var count: Int64 { last - first + 1 < width ? 0 : ((last - first + 1 - width) / stride + 1) * width }
}

/// The layout of a table's ids; the server numbers its lendings from 1, and keeps nothing but the last number.
package enum IDLayout: Hashable, Sendable {
    /// Ids of 64 bits, as in SQLite.
    case wide
    /// Ids of 64 bits beside a sequence that counts from 1; those of 32 bits first.
    case besideSequence
    /// Ids of 32 bits beside a sequence that counts from 1.
    case narrow

    /// A region with places of one width for a limited count of lendings.
    private struct Region {
        let start: Int64
        let end: Int64
        let width: Int64
        let places: Int64

        func lent(_ number: Int64) -> LentIDs? {
            guard number < places else { return nil }
            return LentIDs(first: start + number * width, last: end - 1, stride: width * places, width: width)
        }
    }

    /// How many lendings a restored server skips, because the lost history may have had them.
    package static let lostMax = 64

    /// Narrow strides come first, so that ids stay short as long as few devices create records.
    private var regions: [Region] {
        switch self {
        case .wide:
            [
                // Below 2^31 as long as possible: many programs and columns of 32 bits take no higher ids.
                Region(start: 0, end: 1 << 31, width: 1 << 15, places: 1 << 5),
                Region(start: 1 << 31, end: 1 << 49, width: 1 << 15, places: 1 << 10),
            ] + Self.far
        case .besideSequence:
            // Generic references and other columns of programs have 32 bits, also where the key has 64.
            Self.low + [Region(start: 1 << 32, end: 1 << 49, width: 1 << 15, places: 1 << 10)] + Self.far
        case .narrow: Self.low
        }
    }

    /// The ids of 32 bits above a sequence.
    private static let low = [
        Region(start: 1 << 30, end: 3 << 29, width: 1 << 8, places: 1 << 6),
        Region(start: 3 << 29, end: 1 << 31, width: 1 << 6, places: 1 << 11),
    ]

    private static let far = [
        Region(start: 1 << 49, end: 1 << 51, width: 1 << 14, places: 1 << 14),
        Region(start: 1 << 51, end: 1 << 52, width: 1 << 12, places: 1 << 20),
    ]

    /// Whether the server of a SQLite file may assign an id.
    package static func isOwn(_ id: Int64) -> Bool { IDLayout.wide.lent(0).contains { $0.next(from: id) == id } }
    /// Returns the ids of a lending; empty if there is no place for it.
    package func lent(_ number: Int64) -> [LentIDs] { regions.compactMap { $0.lent(number) } }

    /// Returns the ids of a lending far above a table's sequence; regions of one width of ids stand or fall together.
    package func lent(_ number: Int64, above sequence: Int64) -> [LentIDs] {
        let isBeyondLow = sequence > Self.low[0].start / 2
        return regions.filter { region in
            region.end <= 1 << 31 ? !isBeyondLow : sequence <= region.start / 2
        }.compactMap { $0.lent(number) }
    }

    /// Returns the server's own ids from `least` on up to the end of their place; nil if none are left.
    ///
    /// Ids below the first region are the server's, or a sequence's. Ids that programs choose above
    /// ``TemporaryID/assignedMax`` do not use up the server's.
    package func own(from least: Int64) -> ClosedRange<Int64>? {
        guard least >= regions[0].start else { return least...(regions[0].start - 1) }
        for place in lent(0) {
            guard let id = place.next(from: least), id <= TemporaryID.assignedMax else { continue }
            return id...place.end(of: id)
        }
        return nil
    }
}
