import TidemarkCore

/// A request to compare the rows that a client keeps of one table: `POST /compare/{table}`.
struct PartRequest {
    /// A range of keys, as the client has it.
    struct Range {
        /// The first key, as in a path; nil from the beginning.
        fileprivate(set) var from: String?
        /// The first key after the range; nil to the end.
        fileprivate(set) var to: String?
        /// The client's number of rows in it.
        fileprivate(set) var rows = -1
        /// The first digits of the fingerprint of these rows; an error among few digits shows in that of the part.
        fileprivate(set) var fingerprint = ""
        /// The first digits of each of these rows' numbers, by key; nil if the client wants no rows.
        fileprivate(set) var have: [String: String]?
    }

    /// The filter of the part, as in a query; nil for the whole table.
    private(set) var filter: String?
    /// The place up to which the client has read the feed.
    private(set) var since: String?
    /// The client's number of rows; nil in a request about ranges.
    private(set) var rows: Int?
    /// The fingerprint of the client's rows.
    private(set) var fingerprint: Fingerprint?
    /// The ranges, in the order of keys.
    private(set) var ranges: [Range]?

    /// The most ranges.
    static let rangesMax = 2_000
    /// The most keys in all `have` together, and the most rows of the server's in such ranges.
    static let keysMax = ListQuery.allMax
    /// The number of digits of a range's fingerprint.
    static let rangeDigits = 8...32
    /// The number of digits of a row's number.
    static let rowDigits = 4...32

    /// Reads a body.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/malformedRequest``, ``TidemarkCore/ErrorCode/duplicateName`` or
    ///   ``TidemarkCore/ErrorCode/tooLarge``.
    static func read(_ body: [UInt8]) throws(TidemarkError) -> PartRequest {
        var request = PartRequest()
        try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
            var reader = try JSONReader(bytes)
            try TypedMembers.read(at: "", &reader, or: malformed) { (reader, name, path) throws(TidemarkError) in
                switch name {
                case "filter": request.filter = try reader.member(path, or: malformed) { $0.plainText(of: $1) }
                case "since":
                    // Lists name their revision as a number, feeds their place as a text.
                    request.since = try reader.member(path, or: malformed) { reader, cell in
                        reader.integer(of: cell).map(String.init) ?? reader.plainText(of: cell)
                    }
                case "rows": request.rows = try reader.member(path, or: malformed) { $0.count(of: $1) }
                case "fingerprint":
                    request.fingerprint = try reader.member(path, or: malformed) { $0.fingerprint(of: $1) }
                case "ranges":
                    request.ranges = try reader.members(path, or: malformed) { (reader, path) throws(TidemarkError) in
                        try range(path, &reader)
                    }
                default: throw malformed("The request has a member \(name).")
                }
            }
            try reader.finish()
        }
        try request.check()
        return request
    }

    private static func range(_ path: String, _ reader: inout JSONReader) throws(TidemarkError) -> Range {
        var range = Range()
        try TypedMembers.read(at: path, &reader, or: malformed) { (reader, name, path) throws(TidemarkError) in
            switch name {
            case "from": range.from = try reader.member(path, or: malformed) { $0.plainText(of: $1) }
            case "to": range.to = try reader.member(path, or: malformed) { $0.plainText(of: $1) }
            case "rows": range.rows = try reader.member(path, or: malformed) { $0.count(of: $1) } ?? -1
            case "fingerprint":
                range.fingerprint = try reader.member(path, or: malformed) { $0.plainText(of: $1) } ?? ""
            case "have":
                guard try reader.kind() != .null else { return _ = try reader.skip() }
                var have: [String: String] = [:]
                try TypedMembers.read(at: path, &reader, or: malformed) { (reader, name, path) throws(TidemarkError) in
                    have[name] = try reader.member(path, or: malformed) { $0.plainText(of: $1) } ?? ""
                }
                range.have = have
            default: throw malformed("A range has a member \(name).")
            }
        }
        return range
    }

    private func check() throws(TidemarkError) {
        guard let ranges else {
            guard let rows, rows >= 0, fingerprint != nil else {
                throw Self.malformed("The request has neither ranges nor rows and a fingerprint.")
            }
            return
        }
        guard rows == nil, fingerprint == nil, since == nil else {
            throw Self.malformed("A request about ranges has no rows, no fingerprint and no since of its own.")
        }
        let keys = ranges.reduce(0) { $0 + ($1.have?.count ?? 0) }
        guard ranges.count <= Self.rangesMax, keys <= Self.keysMax else {
            throw TidemarkError(
                .tooLarge, "The request has \(ranges.count) ranges and \(keys) keys.",
                fix: "Send at most \(Self.rangesMax) ranges and \(Self.keysMax) keys at a time.")
        }
        for (index, range) in ranges.enumerated() {
            guard range.rows >= 0 else { throw Self.malformed("ranges[\(index)].rows is no integer from 0 on.") }
            guard Self.isHex(range.fingerprint, Self.rangeDigits) else {
                throw Self.malformed("ranges[\(index)].fingerprint is not 8 to 32 hexadecimal digits.")
            }
            guard range.have?.values.allSatisfy({ Self.isHex($0, Self.rowDigits) }) != false else {
                throw Self.malformed("ranges[\(index)].have has a value that is not 4 to 32 hexadecimal digits.")
            }
        }
    }

    private static func isHex(_ text: String, _ count: ClosedRange<Int>) -> Bool {
        count.contains(text.utf8.count) && text.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    }

    static func malformed(_ message: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest, message,
            fix: #"See REST.md; a client without rows sends {"rows":0,"fingerprint":"\#(Fingerprint.none.hex)"}."#)
    }
}

extension JSONReader {
    /// Returns an integer; nil for another value.
    fileprivate func count(of cell: Cell) -> Int? { integer(of: cell).flatMap(Int.init(exactly:)) }
}
