import Testing

@testable import TidemarkCore

/// The layouts by which a server lends ids.
@Suite struct LentIDsTests {
    /// Whether two devices have an id in common.
    private static func overlaps(_ a: LentIDs, _ b: LentIDs) -> Bool {
        guard a.first <= b.last, b.first <= a.last else { return false }
        let distance = (max(a.first, b.first) - min(a.first, b.first)) % a.stride
        return a.stride != b.stride || distance < a.width || a.stride - distance < a.width
    }

    @Test(arguments: [IDLayout.wide, .besideSequence, .narrow])
    func `no id is in two lendings, nor in a lending and among the server's own`(layout: IDLayout) {
        let numbers: [Int64] = [0, 1, 2, 30, 31, 32, 33, 63, 64, 65, 1_023, 1_024, 2_047]
        for (index, number) in numbers.enumerated() {
            for other in numbers[..<index] {
                for a in layout.lent(number) {
                    for b in layout.lent(other) {
                        #expect(!Self.overlaps(a, b), "\(number) and \(other): \(a) and \(b)")
                    }
                }
            }
        }
    }

    @Test func `the first 31 devices draw ids below 2^31, 2,048 strides long`() throws {
        for number in Int64(1)...31 {
            let lent = try #require(IDLayout.wide.lent(number).first)
            #expect(lent.last < 1 << 31)
            #expect(lent.count == 2_048 * 32_768)
        }
        #expect(try #require(IDLayout.wide.lent(32).first).first > 1 << 31)
    }

    @Test func `keys of 32 bits are lent 2,047 times, and all of them fit`() throws {
        for number in [Int64(1), 63, 64, 2_047] {
            let places = IDLayout.narrow.lent(number)
            #expect(!places.isEmpty && places.allSatisfy { $0.first >= 1 << 30 && $0.last < 1 << 31 })
        }
        #expect(IDLayout.narrow.lent(2_048).isEmpty)
    }

    @Test func `keys of 64 bits are lent ids of 32 bits, until the sequence comes near them`() throws {
        let low = IDLayout.besideSequence.lent(1, above: 1 << 29)
        #expect(low.first?.first == 1 << 30 + 1 << 8)
        #expect(low.contains { $0.first >= 1 << 32 }, "later there are ids without end")
        let high = IDLayout.besideSequence.lent(1, above: 1 << 29 + 1)
        // The same ids as before the low ones were lent.
        #expect(high.first?.first == 1 << 32 + 1 << 15 && high.count == low.count - 2)
        #expect(IDLayout.besideSequence.lent(1, above: 1 << 31 + 1).allSatisfy { $0.first >= 1 << 49 })
        #expect(IDLayout.narrow.lent(1, above: 1 << 29).count == 2)
        #expect(IDLayout.narrow.lent(1, above: 1 << 29 + 1).isEmpty)
    }

    @Test func `the id of a number is the inverse of the number of an id, over the end of a place`() throws {
        let lent = try #require(LentIDs(first: 100, last: 1_000, stride: 50, width: 10))
        #expect(lent.count == 180)
        for (id, ordinal) in [(100, 0), (109, 9), (150, 10), (959, 179)] as [(Int64, Int64)] {
            #expect(lent.ordinal(of: id) == ordinal)
        }
        #expect(lent.end(of: 153) == 159)
        #expect(lent.next(from: 110) == 150)
        #expect(lent.next(from: 960) == nil)
    }
}
