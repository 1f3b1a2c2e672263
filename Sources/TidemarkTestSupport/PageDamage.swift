/// Damages the pages of a SQLite file, as disks, cables and careless programs do.
public enum PageDamage: String, CaseIterable, Sendable {
    case bitFlips, zeroedPage, junkPage, swappedPages, cut, recordOfNulls

    /// Damages a page, counted from 1, of a file's bytes.
    public func apply(to bytes: inout [UInt8], page: Int, pageSize size: Int, _ random: inout SeededGenerator) {
        let start = (page - 1) * size
        let pages = bytes.count / size
        guard pages > 1, page >= 1, page <= pages else { return }
        switch self {
        case .bitFlips:
            for _ in 0..<Int.random(in: 1...20, using: &random) {
                let at = start + Int.random(in: 0..<size, using: &random)
                bytes[at] ^= UInt8(1) << UInt8.random(in: 0..<8, using: &random)
            }
        case .zeroedPage: for at in start..<start + size { bytes[at] = 0 }
        case .junkPage: for at in start..<start + size { bytes[at] = .random(in: 0...255, using: &random) }
        case .swappedPages:
            let other = (Int.random(in: 2...pages, using: &random) - 1) * size
            let content = bytes[start..<start + size]
            let otherContent = bytes[other..<other + size]
            bytes.replaceSubrange(other..<other + size, with: content)
            bytes.replaceSubrange(start..<start + size, with: otherContent)
        case .cut: bytes.removeLast(bytes.count - start - Int.random(in: 0..<size, using: &random))
        case .recordOfNulls:
            let cells = Self.cells(of: bytes, page: page, pageSize: size)
            guard let cell = cells.randomElement(using: &random) else { return }
            Self.makeNull(cell, in: &bytes)
        }
    }

    /// Makes every record of a page read as NULLs, as in a torn page.
    public static func makeNulls(of bytes: inout [UInt8], page: Int, pageSize size: Int) {
        for cell in cells(of: bytes, page: page, pageSize: size) { makeNull(cell, in: &bytes) }
    }

    /// The places of the headers of a leaf page's records, behind the headers' own lengths.
    private static func cells(of bytes: [UInt8], page: Int, pageSize size: Int) -> [Range<Int>] {
        let start = (page - 1) * size
        // The file's own header comes first in the first page.
        let head = page == 1 ? start + 100 : start
        let table: UInt8 = 13
        let index: UInt8 = 10
        guard bytes[head] == table || bytes[head] == index else { return [] }
        let count = Int(bytes[head + 3]) << 8 | Int(bytes[head + 4])
        return (0..<count).compactMap { number in
            let pointer = head + 8 + number * 2
            guard pointer + 1 < start + size else { return nil }
            var at = start + (Int(bytes[pointer]) << 8 | Int(bytes[pointer + 1]))
            // The payload's length, and a table's rowid.
            for _ in 0..<(bytes[head] == table ? 2 : 1) { _ = number64(bytes, &at) }
            let begin = at
            let length = number64(bytes, &at)
            guard length > 0, begin + length <= start + size, at <= begin + length else { return nil }
            return at..<begin + length
        }
    }

    private static func makeNull(_ header: Range<Int>, in bytes: inout [UInt8]) { for at in header { bytes[at] = 0 } }

    /// Reads one of SQLite's numbers of variable length.
    private static func number64(_ bytes: [UInt8], _ at: inout Int) -> Int {
        var value = 0
        for _ in 0..<9 where at < bytes.count {
            let byte = bytes[at]
            at += 1
            value = value << 7 | Int(byte & 0x7F)
            if byte < 0x80 { break }
        }
        return value & Int(Int32.max)
    }
}
