/// Writes a long text in pieces, so that only one piece is in memory.
///
/// A change set of a hundred thousand rows is a text of tens of megabytes, and SQLite copies a
/// value twice on its way into a row. So such a text takes several rows: its beginning is stored
/// where a short text is, and the rest in a table of pieces.
package struct TextPieces {
    /// The size of a piece in bytes, unless an indivisible part is longer.
    package static let bytesTarget = 64 << 10
    private let take: (_ number: Int, _ piece: String) throws -> Void
    private var piece: [UInt8] = []
    private var number = 0

    /// Passes at least one piece to `take`, numbered from 0.
    package init(_ take: @escaping (_ number: Int, _ piece: String) throws -> Void) { self.take = take }

    /// Adds an indivisible part, which consists of whole characters.
    mutating func append(_ bytes: some Collection<UInt8>) throws {
        if !piece.isEmpty, piece.count + bytes.count > Self.bytesTarget { try flush() }
        piece += bytes
    }

    mutating func finish() throws { try flush() }

    private mutating func flush() throws {
        try take(number, String(decoding: piece, as: UTF8.self))
        number += 1
        piece.removeAll(keepingCapacity: true)
    }
}
