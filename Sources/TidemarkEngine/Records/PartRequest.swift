import Foundation
import TidemarkCore

/// A request to compare the rows that a client keeps of one table: `POST /compare/{table}`.
struct PartRequest: Decodable {
    /// A range of keys, as the client has it.
    struct Range: Decodable {
        /// The first key, as in a path; nil from the beginning.
        let from: String?
        /// The first key after the range; nil to the end.
        let to: String?
        /// The client's number of rows in it.
        let rows: Int
        /// The first digits of the fingerprint of these rows; an error among few digits shows in that of the part.
        let fingerprint: String
        /// The first digits of each of these rows' numbers, by key; nil if the client wants no rows.
        let have: [String: String]?
    }

    /// The filter of the part, as in a query; nil for the whole table.
    let filter: String?
    /// The place up to which the client has read the feed.
    let since: String?
    /// The client's number of rows; nil in a request about ranges.
    let rows: Int?
    /// The fingerprint of the client's rows.
    let fingerprint: Fingerprint?
    /// The ranges, in the order of keys.
    let ranges: [Range]?

    private enum CodingKeys: String, CodingKey { case filter, since, rows, fingerprint, ranges }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        filter = try members.decodeIfPresent(String.self, forKey: .filter)
        // Lists name their revision as a number, feeds their place as a text.
        if let revision = try? members.decodeIfPresent(Int64.self, forKey: .since) {
            since = String(revision)
        } else {
            since = try members.decodeIfPresent(String.self, forKey: .since)
        }
        rows = try members.decodeIfPresent(Int.self, forKey: .rows)
        fingerprint = try members.decodeIfPresent(Fingerprint.self, forKey: .fingerprint)
        ranges = try members.decodeIfPresent([Range].self, forKey: .ranges)
    }

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
    static func read(_ body: [UInt8]) throws -> PartRequest {
        let request: PartRequest
        do { request = try JSONDecoder().decode(PartRequest.self, from: Data(body)) } catch {
            throw malformed(MemberNames.problem(error as? DecodingError) ?? "The body is no comparison of rows.")
        }
        try MemberNames.check(body) { name, depth in
            guard depth > 2 || members[min(depth, 2) - 1].contains(name) else {
                throw malformed("\(depth > 1 ? "A range" : "The request") has a member \(name).")
            }
        }
        try request.check()
        return request
    }

    private static let members: [Set<String>] = [
        ["filter", "since", "rows", "fingerprint", "ranges"], ["from", "to", "rows", "fingerprint", "have"],
    ]

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
                .tooLarge,
                "The request has \(ranges.count) ranges and \(keys) keys.",
                fix: "Send at most \(Self.rangesMax) ranges and \(Self.keysMax) keys at a time."
            )
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
            .malformedRequest,
            message,
            fix: #"See REST.md; a client without rows sends {"rows":0,"fingerprint":"\#(Fingerprint.none.hex)"}."#
        )
    }
}
