import Testing
import TidemarkCore

@Suite struct TemporaryIDTests {
    private static let temporary: [Int64] = [
        -1, -10, -TemporaryID.permanentMax, TemporaryID.reservedMin, TemporaryID.reservedMin + 1,
        TemporaryID.reservedMax,
    ]

    @Test(arguments: temporary)
    func `A15: ids below 0 and from 2^52 are temporary`(id: Int64) {
        #expect(TemporaryID.isTemporary(id))
    }

    @Test(arguments: [0, 1, 321, TemporaryID.permanentMax] as [Int64])
    func `an id assigned by the server is not temporary`(id: Int64) { #expect(!TemporaryID.isTemporary(id)) }

    @Test func `the server's range of ids and the reserved one touch and do not overlap`() {
        #expect(TemporaryID.permanentMax + 1 == TemporaryID.reservedMin)
        #expect(!TemporaryID.isTemporary(TemporaryID.permanentMax))
        #expect(TemporaryID.isTemporary(TemporaryID.reservedMin))
    }

    @Test func `a double represents every temporary id exactly`() {
        for id in [TemporaryID.reservedMin, TemporaryID.reservedMax - 1, TemporaryID.reservedMax] {
            #expect(Int64(Double(id)) == id)
            #expect(Double(id) != Double(id - 1))
        }
    }
}
