internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// The part of a snapshot file that a request asks for.
///
/// The request has `Range: bytes=FIRST-` or `bytes=FIRST-LAST`, and the file's tag in `If-Range`. Any
/// other request gets the whole file, as HTTP allows (RFC 9110, 14.2): several ranges, a weak tag, a
/// date, or a range without `If-Range`, which does not identify the file.
struct SnapshotPart: Hashable {
    /// The tag of the file, without its quotes.
    let tag: String
    /// The first byte, from 0.
    let first: Int
    /// The last byte; nil for the file's last.
    let last: Int?

    /// Parses a request; nil if it asks for the whole file.
    init?(_ request: Request) {
        guard request.method == .get else { return nil }
        self.init(range: request.headers[.range], ifRange: request.headers[.ifRange])
    }

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

    /// Returns the bytes to send, nil for another file, sent whole; throws if the file ends before the first byte.
    func bytes(of snapshot: SnapshotFile) throws -> ClosedRange<Int>? {
        guard snapshot.tag == tag else { return nil }
        let end = Int(snapshot.byteCount)
        guard first < end else {
            throw Refusal(
                .rangeNotSatisfiable, "The snapshot has \(end) bytes, so no part begins at byte \(first).",
                fix: "Ask for it without a range.", headers: [.contentRange: "bytes */\(end)", .acceptRanges: "bytes"])
        }
        return first...min(last ?? end - 1, end - 1)
    }

    private static let unit = "bytes="

    /// Parses digits only; a number that is too large becomes the largest `Int`.
    private static func number(_ digits: Substring) -> Int? {
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(digits) ?? .max
    }
}

extension SnapshotFile {
    func contentRange(_ bytes: ClosedRange<Int>) -> String {
        "bytes \(bytes.lowerBound)-\(bytes.upperBound)/\(byteCount)"
    }
}
