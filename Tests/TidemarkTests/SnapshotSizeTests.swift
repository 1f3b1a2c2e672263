import Testing
import TidemarkCore

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

    private static func bound(free: Int64? = nil) throws -> SnapshotSize {
        SnapshotSize(address: try ServerAddress("https://sync.example.org"), freeBytes: free)
    }

    /// Gives a bound a block; returns the message of the refusal, nil without one.
    private static func take(_ block: [UInt8], received: Int64, _ bound: inout SnapshotSize) -> String? {
        do throws(TidemarkError) {
            try bound.take(block, received: received)
            return nil
        } catch { return error.message }
    }

    @Test(arguments: [(1, 512), (3, 4_096), (2, 65_536)])
    func `a file of the size in its header passes, and one byte more does not`(pages: Int, size: Int) throws {
        var bound = try Self.bound(free: 1 << 30)
        #expect(Self.take(Self.head(pages: pages, size: size), received: 100, &bound) == nil)
        #expect(Self.take([UInt8](repeating: 1, count: pages * size - 100), received: 200, &bound) == nil)
        #expect(Self.take([1], received: 201, &bound)?.contains("longer than it says") == true)
    }

    @Test func `a header in single bytes is read as well`() throws {
        var bound = try Self.bound()
        for byte in Self.head(pages: 1, size: 512) { #expect(Self.take([byte], received: 1, &bound) == nil) }
        let fault = Self.take([UInt8](repeating: 0, count: 413), received: 1, &bound)
        #expect(fault?.contains("longer than it says") == true)
    }

    @Test func `a file that leaves no room for its rows is refused by its header`() throws {
        var bound = try Self.bound(free: 8 << 20)
        let fault = Self.take(Self.head(pages: 1_280, size: 4_096), received: 100, &bound)
        #expect(fault == "The snapshot has 5 MiB, and the disk has 8 MiB of free space.")
        var smaller = try Self.bound(free: 100_000)
        #expect(Self.take(Self.head(pages: 12, size: 4_096), received: 100, &smaller) == nil)
        smaller = try Self.bound(free: 100_000)
        #expect(Self.take(Self.head(pages: 13, size: 4_096), received: 100, &smaller) != nil)
    }

    @Test func `another file than SQLite's ends after some mebibytes, and an absurd expansion after some more`() throws
    {
        var other = try Self.bound()
        let first = (1...1_000).first { _ in Self.take(Self.mebibyte, received: 1 << 30, &other) != nil }
        #expect(first == 65)
        var inflated = try Self.bound()
        #expect(Self.take(Self.head(pages: 1 << 24, size: 4_096), received: 1, &inflated) == nil)
        var last: String?
        let end = (1...1_000).first { _ in
            last = Self.take(Self.mebibyte, received: 1 << 20, &inflated)
            return last != nil
        }
        #expect(end == 256 && last?.contains("expands too many times") == true)
        var honest = try Self.bound()
        #expect(Self.take(Self.head(pages: 1 << 24, size: 4_096), received: 1, &honest) == nil)
        #expect((1...1_000).allSatisfy { Self.take(Self.mebibyte, received: Int64($0) * 20_000, &honest) == nil })
    }
}
