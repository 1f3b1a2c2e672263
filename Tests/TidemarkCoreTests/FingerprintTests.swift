import Testing
import TidemarkCore

@Suite struct FingerprintTests {
    @Test func `rule 17: adding and removing rows in any order restores the sum`() {
        let parts = (0..<50).map { index -> Fingerprint in
            let value = UInt64(index) &* 0x9e37_79b9_7f4a_7c15
            return Fingerprint(high: ~value, low: value &* value)
        }
        let sum = parts.reduce(.none, +)
        #expect(parts.reversed().reduce(.none, +) == sum)
        #expect(parts.reduce(sum, -) == .none)
        #expect(parts.reduce(.none, -) + sum == .none)
    }

    @Test func `a carry reaches the upper half, and the sum is cut at 128 bits`() {
        let one = Fingerprint(low: 1)
        let ones = Fingerprint(high: .max, low: .max)
        #expect(ones + one == .none)
        #expect(Fingerprint.none - one == ones)
        #expect(Fingerprint(low: .max) + one == Fingerprint(high: 1))
    }

    @Test func `only 32 hexadecimal digits are a fingerprint`() {
        let hex = "00000000000000ff0123456789abcdef"
        #expect(Fingerprint(hex: hex)?.hex == hex)
        #expect(Fingerprint(hex: hex.uppercased())?.hex == hex)
        for wrong in ["", "ff", hex + "0", "+" + hex.dropFirst(), "g" + hex.dropFirst()] {
            #expect(Fingerprint(hex: wrong) == nil)
        }
    }
}
