import Testing

@testable import Tidemark

/// How much of a download a device writes before it knows that it is a snapshot.
@Suite struct SnapshotSizeTests {
    private static let mebibyte = [UInt8](repeating: 0, count: 1 << 20)

    /// The first block of a SQLite file of so many pages of a size.
    private static func head(pages: Int, size: Int) -> [UInt8] {
        var head = Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 84)
        let stated = size == 65_536 ? 1 : size
        head.replaceSubrange(16..<18, with: [UInt8(stated >> 8), UInt8(stated & 0xFF)])
        head.replaceSubrange(28..<32, with: (0..<4).map { UInt8(truncatingIfNeeded: pages >> (24 - 8 * $0)) })
        return head
    }

    @Test(arguments: [(1, 512), (3, 4_096), (2, 65_536)])
    func `a file of the size in its header passes, and one byte more does not`(pages: Int, size: Int) {
        var bound = SnapshotSize(freeBytes: 1 << 30)
        #expect(bound.take(Self.head(pages: pages, size: size), received: 100) == nil)
        #expect(bound.take([UInt8](repeating: 1, count: pages * size - 100), received: 200) == nil)
        #expect(bound.take([1], received: 201) == .longerThanItsHeader)
    }

    @Test func `a header in single bytes is read as well`() {
        var bound = SnapshotSize(freeBytes: nil)
        for byte in Self.head(pages: 1, size: 512) { #expect(bound.take([byte], received: 1) == nil) }
        #expect(bound.take([UInt8](repeating: 0, count: 413), received: 1) == .longerThanItsHeader)
    }

    @Test func `a file that leaves no room for its rows is refused by its header`() {
        var bound = SnapshotSize(freeBytes: 100_000)
        let fault = SnapshotSize.Fault.tooLargeForDisk(bytes: 13 * 4_096, free: 100_000)
        #expect(bound.take(Self.head(pages: 13, size: 4_096), received: 100) == fault)
        var smaller = SnapshotSize(freeBytes: 100_000)
        #expect(smaller.take(Self.head(pages: 12, size: 4_096), received: 100) == nil)
    }

    @Test func `another file than SQLite's ends after some mebibytes, and an absurd expansion after some more`() {
        var other = SnapshotSize(freeBytes: nil)
        let first = (1...1_000).first { _ in other.take(Self.mebibyte, received: 1 << 30) != nil }
        #expect(first == 65)
        var inflated = SnapshotSize(freeBytes: nil)
        #expect(inflated.take(Self.head(pages: 1 << 24, size: 4_096), received: 1) == nil)
        var last: SnapshotSize.Fault?
        let end = (1...1_000).first { _ in
            last = inflated.take(Self.mebibyte, received: 1 << 20)
            return last != nil
        }
        #expect(end == 256 && last == .inflated)
        var honest = SnapshotSize(freeBytes: nil)
        #expect(honest.take(Self.head(pages: 1 << 24, size: 4_096), received: 1) == nil)
        #expect((1...1_000).allSatisfy { honest.take(Self.mebibyte, received: Int64($0) * 20_000) == nil })
    }
}
