/// A long text on its way to where it is kept, of which only a piece is in memory.
///
/// A change set of a hundred thousand rows is a text of tens of megabytes, and SQLite copies a
/// value twice on its way into a row. So such a text is kept in several rows: its beginning where
/// the text of a short one is, and the rest in a table of pieces.
package struct TextPieces {
    /// How long a piece is, unless what must stay together is longer, in bytes.
    package static let bytesTarget = 64 << 10

    private let take: (_ number: Int, _ piece: String) throws -> Void
    private var piece: [UInt8] = []
    private var number = 0

    /// Hands the pieces to `take`, of which there is at least one, numbered from 0.
    package init(_ take: @escaping (_ number: Int, _ piece: String) throws -> Void) { self.take = take }

    /// Adds what must not be torn apart: characters that are whole.
    mutating func append(_ bytes: some Collection<UInt8>) throws {
        if !piece.isEmpty, piece.count + bytes.count > Self.bytesTarget { try hand() }
        piece += bytes
    }

    /// Hands over the last piece.
    mutating func finish() throws { try hand() }

    private mutating func hand() throws {
        try take(number, String(decoding: piece, as: UTF8.self))
        number += 1
        piece.removeAll(keepingCapacity: true)
    }
}
