/// A range of keys of one table, with the number and fingerprint of one side's rows, to find the records that differ.
package struct KeyRange: Hashable, Sendable, Encodable {
    /// The first key of a range or after it; integers compare as numbers, other keys by the bytes of their JSON.
    package enum Bound: Hashable, Sendable, Encodable {
        case integer(Int64)
        /// The canonical JSON of any other key.
        case json(String)

        /// Writes an integer or a string.
        package func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .integer(let key): try container.encode(key)
            case .json(let key): try container.encode(key)
            }
        }
    }

    package let table: String
    /// The first key; nil if the range has no lower bound.
    package let from: Bound?
    /// The first key after the range; nil if the range has no upper bound.
    package let to: Bound?
    package var rows: Int
    package var fingerprint: Fingerprint
    /// Whether the other side sends its rows of the range if they differ.
    package var send: Bool?

    package init(
        table: String, from: Bound? = nil, to: Bound? = nil, rows: Int = 0, fingerprint: Fingerprint = .none,
        send: Bool? = nil
    ) {
        self.table = table
        self.from = from
        self.to = to
        self.rows = rows
        self.fingerprint = fingerprint
        self.send = send
    }

    /// Returns a range that ends before it begins, overlaps another one, or is not grouped by table in order of keys.
    package static func misplaced(in ranges: [KeyRange]) -> KeyRange? {
        if let empty = ranges.first(where: { range in
            range.from.map { start in range.to.map { $0 < start } ?? false } ?? false
        }) {
            return empty
        }
        var finishedTables: Set<String> = []
        return zip(ranges, ranges.dropFirst()).first { range, next in
            guard range.table == next.table else {
                finishedTables.insert(range.table)
                return finishedTables.contains(next.table)
            }
            guard let end = range.to, let start = next.from else { return true }
            return start < end
        }?.1
    }
}

extension KeyRange.Bound: Comparable {
    /// Orders integers by value and JSON by bytes; integers come first.
    package static func < (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.integer(let left), .integer(let right)): left < right
        case (.json(let left), .json(let right)): left.utf8.lexicographicallyPrecedes(right.utf8)
        case (.integer, .json): true
        case (.json, .integer): false
        }
    }
}

/// The body of `POST /fingerprints`: a device's request to compare rows.
package struct ComparisonRequest: Hashable, Sendable, Encodable {
    package var epoch: String?
    /// The hash of the shape of the device's tables.
    package var schema: String?
    package var revision: Int64
    /// Whether the server computes its fingerprint from all rows instead of using the stored one.
    package var recompute: Bool?
    package var ranges: [KeyRange]

    package init(epoch: String?, schema: String?, revision: Int64, recompute: Bool, ranges: [KeyRange]) {
        self.epoch = epoch
        self.schema = schema
        self.revision = revision
        self.recompute = recompute
        self.ranges = ranges
    }
}
