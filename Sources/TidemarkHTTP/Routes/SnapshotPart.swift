internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkServer

/// A part of a snapshot file that a request asks for: `Range: bytes=FIRST-` or `bytes=FIRST-LAST`,
/// with the file's tag in `If-Range`.
///
/// Anything else asks for the whole, as HTTP allows (RFC 9110, 14.2): several ranges, a weak tag, a
/// date, and a range without `If-Range`, which would not tell of which file the first part was.
struct SnapshotPart: Hashable {
    /// The tag of the file, without its quotes.
    let tag: String
    /// The first byte wanted, from 0.
    let first: Int
    /// The last byte wanted; nil: the file's last.
    let last: Int?

    /// Reads a request; nil when it asks for the whole.
    init?(_ request: Request) {
        guard request.method == .get else { return nil }
        self.init(range: request.headers[.range], ifRange: request.headers[.ifRange])
    }

    /// Reads the two headers.
    init?(range: String?, ifRange: String?) {
        guard let range, let ifRange, ifRange.count > 2, ifRange.hasPrefix("\""), ifRange.hasSuffix("\""),
            range.lowercased().hasPrefix(Self.unit)
        else { return nil }
        tag = String(ifRange.dropFirst().dropLast())
        let ends = range.dropFirst(Self.unit.count).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]) else { return nil }
        self.first = first
        last = Self.number(ends[1])
        guard last != nil || ends[1].isEmpty, last ?? first >= first else { return nil }
    }

    /// The bytes of a file that are meant; nil when it is another file, so that all are.
    ///
    /// - Throws: `rangeNotSatisfiable` when the file ends before.
    func bytes(of snapshot: SnapshotFile) throws -> ClosedRange<Int>? {
        guard snapshot.tag == tag else { return nil }
        let end = Int(snapshot.byteCount)
        guard first < end else {
            throw Refusal(
                .rangeNotSatisfiable,
                "The snapshot has \(end) bytes, so nothing begins at byte \(first).",
                fix: "Ask for it without a range.",
                headers: [.contentRange: "bytes */\(end)", .acceptRanges: "bytes"]
            )
        }
        return first...min(last ?? end - 1, end - 1)
    }

    private static let unit = "bytes="

    /// A number of digits alone; one that is too large is the largest.
    private static func number(_ digits: Substring) -> Int? {
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(digits) ?? .max
    }
}

extension SnapshotFile {
    /// What `Content-Range` says about a part of it.
    func contentRange(_ bytes: ClosedRange<Int>) -> String {
        "bytes \(bytes.lowerBound)-\(bytes.upperBound)/\(byteCount)"
    }
}
