import Testing
import TidemarkCore

@Suite struct TemporaryIDTests {
    private static let temporary: [Int64] = [
        -1, -10, -TemporaryID.permanentMax, TemporaryID.reservedMin, TemporaryID.reservedMin + 1,
        TemporaryID.reservedMax,
    ]

    @Test(arguments: temporary)
    func `A15: a temporary id travels as a negative one and comes home as it was`(id: Int64) {
        #expect(TemporaryID.isTemporary(id))
        #expect(TemporaryID.wire(id) < 0)
        #expect(TemporaryID.local(TemporaryID.wire(id)) == id)
    }

    @Test(arguments: [0, 1, 321, TemporaryID.permanentMax] as [Int64])
    func `an id that the server assigned travels as it is`(id: Int64) {
        #expect(!TemporaryID.isTemporary(id))
        #expect(TemporaryID.wire(id) == id)
        #expect(TemporaryID.local(id) == id)
    }

    @Test func `an id typed by hand and one drawn by a plain insert never meet on the wire`() {
        let typed: [Int64] = [-1, -2, -TemporaryID.permanentMax]
        let drawn = [TemporaryID.reservedMin, TemporaryID.reservedMin + 1, TemporaryID.reservedMax]
        #expect(Set((typed + drawn).map(TemporaryID.wire)).count == typed.count + drawn.count)
    }

    @Test func `the server's region and the reserved one touch and do not overlap`() {
        #expect(TemporaryID.permanentMax + 1 == TemporaryID.reservedMin)
        #expect(!TemporaryID.isTemporary(TemporaryID.permanentMax))
        #expect(TemporaryID.isTemporary(TemporaryID.reservedMin))
    }

    @Test func `a reader that keeps numbers as doubles reads every temporary id exactly`() {
        for id in [TemporaryID.reservedMin, TemporaryID.reservedMax - 1, TemporaryID.reservedMax] {
            #expect(Int64(Double(id)) == id)
            #expect(Double(id) != Double(id - 1))
        }
    }
}
