import GRDBSQLite

/// A built-in collation that stands for one that only the program has.
package enum StandInCollation: String, CaseIterable, Sendable {
    /// Compares bytes.
    case binary = "BINARY"
    /// Compares the letters A to Z without case.
    case nocase = "NOCASE"
    /// Compares without spaces at the end.
    case rtrim = "RTRIM"

    func register(as name: UnsafePointer<CChar>, on connection: OpaquePointer?) {
        let compare:
            @convention(c) (UnsafeMutableRawPointer?, Int32, UnsafeRawPointer?, Int32, UnsafeRawPointer?) -> Int32
        switch self {
        case .binary:
            compare = { _, count, left, other, right in order(text(count, of: left), text(other, of: right)) { $0 } }
        case .nocase:
            compare = { _, count, left, other, right in
                order(text(count, of: left), text(other, of: right)) { 65...90 ~= $0 ? $0 | 32 : $0 }
            }
        case .rtrim:
            compare = { _, count, left, other, right in
                order(trimmed(text(count, of: left)), trimmed(text(other, of: right))) { $0 }
            }
        }
        sqlite3_create_collation_v2(connection, name, SQLITE_UTF8, nil, compare, nil)
    }
}

private func text(_ count: Int32, of start: UnsafeRawPointer?) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: start, count: Int(count))
}

private func trimmed(_ text: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    let end = text.lastIndex { $0 != UInt8(ascii: " ") }.map { $0 + 1 } ?? 0
    return UnsafeRawBufferPointer(rebasing: text[..<end])
}

private func order(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer, folding fold: (UInt8) -> UInt8)
    -> Int32
{
    for (mine, other) in zip(left, right) where fold(mine) != fold(other) { return fold(mine) < fold(other) ? -1 : 1 }
    return left.count == right.count ? 0 : left.count < right.count ? -1 : 1
}
