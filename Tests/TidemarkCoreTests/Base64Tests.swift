import Foundation
import Testing

@testable import TidemarkCore

/// Base64 without Foundation, compared with Foundation's.
@Suite struct Base64Tests {
    @Test func `every length and every byte value encodes and decodes as in Foundation`() throws {
        var random = Congruential(state: 7)
        for count in Array(0...70) + [1_021, 1_022, 1_023, 65_536] {
            let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            var text: [UInt8] = Array("before".utf8)
            bytes.withUnsafeBufferPointer { Base64.append($0, to: &text) }
            #expect(text == Array("before".utf8) + Data(bytes).base64EncodedData())
            let encoded = Array(text.dropFirst(6))
            #expect(encoded.withUnsafeBufferPointer { Base64.decode($0) } == bytes)
            #expect(Base64.byteCount(encoded) == count)
        }
    }

    @Test func `text is accepted as base64 exactly if Foundation accepts it, with equal bytes`() {
        let alphabet = Array("AZaz09+/=-_ \n\\é".utf8)
        var random = Congruential(state: 8)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...9, using: &random)
            let text = (0..<count).map { _ in alphabet.randomElement(using: &random) ?? 0 }
            // Foundation accepts more text, and decodes it.
            guard let decoded = text.withUnsafeBufferPointer({ Base64.decode($0) }) else { continue }
            let expected = Data(base64Encoded: Data(text)).map(Array.init)
            #expect(decoded == expected, "\(String(decoding: text, as: UTF8.self))")
        }
    }
}

/// The same numbers in every run.
private struct Congruential: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ (state >> 29)
    }
}
