/// A range of keys of one table, with how many rows one side has there and their fingerprint.
///
/// What two sides tell each other to find the records that differ.
public struct KeyRange: Hashable, Sendable, Codable {
    /// Where a range begins or ends.
    ///
    /// Keys of integer-keyed tables are ordered as numbers, all others by the bytes of their
    /// canonical JSON.
    public enum Bound: Hashable, Sendable, Codable {
        /// An integer key.
        case integer(Int64)
        /// The canonical JSON of any other key.
        case json(String)

        /// Reads an integer or a string.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            do { self = .integer(try container.decode(Int64.self)) } catch {
                self = .json(try container.decode(String.self))
            }
        }

        /// Writes an integer or a string.
        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .integer(let key): try container.encode(key)
            case .json(let key): try container.encode(key)
            }
        }
    }

    /// The table.
    public let table: String
    /// The first key; nil: from the beginning.
    public let from: Bound?
    /// The first key that is not part of it any more; nil: to the end.
    public let to: Bound?
    /// How many rows there are.
    public var rows: Int
    /// Their fingerprint.
    public var fingerprint: Fingerprint
    /// Whether the other side shall send its rows of the range if they differ.
    public var send: Bool?

    /// Makes a range.
    public init(
        table: String,
        from: Bound? = nil,
        to: Bound? = nil,
        rows: Int = 0,
        fingerprint: Fingerprint = .none,
        send: Bool? = nil
    ) {
        self.table = table
        self.from = from
        self.to = to
        self.rows = rows
        self.fingerprint = fingerprint
        self.send = send
    }
}

extension KeyRange.Bound: Comparable {
    /// Numbers by value, text by bytes.
    public static func < (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.integer(let left), .integer(let right)): left < right
        case (.json(let left), .json(let right)): left.utf8.lexicographicallyPrecedes(right.utf8)
        case (.integer, .json): true
        case (.json, .integer): false
        }
    }
}

/// A request to compare rows: `POST /fingerprints`.
public struct ComparisonRequest: Hashable, Sendable, Codable {
    /// The history that the device knows.
    public var epoch: String?
    /// The hash of the shape of the device's tables.
    public var schema: String?
    /// The revision that the ranges are at.
    public var revision: Int64
    /// Whether the server computes its fingerprint from all rows, instead of trusting what it kept.
    public var recompute: Bool?
    /// The device's ranges.
    public var ranges: [KeyRange]

    /// Makes a request.
    public init(epoch: String?, schema: String?, revision: Int64, recompute: Bool, ranges: [KeyRange]) {
        self.epoch = epoch
        self.schema = schema
        self.revision = revision
        self.recompute = recompute
        self.ranges = ranges
    }
}
