import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 29: a valid answer with a few bytes, values or members replaced at random, again and again.
@Suite struct ReplyFuzzTests {
    /// The number of mutated answers; the environment can ask for more.
    static let count = Effort.count("TIDEMARK_REPLIES", short: 500, long: 3_000)

    @Test func `rule 10, case 75: mutated answers, one after another, crash nothing and lose nothing`() async throws {
        var random = SeededGenerator(seed: UInt64(Effort.count("TIDEMARK_REPLY_SEED", short: 75, long: 75)))
        var refused = 0
        var scenes = 1
        var scene = try await Scene()
        var before = try await scene.everything()
        for number in 1...Self.count {
            let spoiler = ReplySpoiler(seed: random.next())
            let error = await scene.sync { spoiler.spoil($0) }
            if let error {
                // Nothing is parked or dropped: the sync is retried, or the rows are compared.
                #expect([.retry, .resync, .repair].contains(error.recovery), "\(number): \(error)")
            }
            if try await scene.everything() == before {
                refused += 1
                continue
            }
            // The mutated answer was accepted: the pending edits still reach the server, and the
            // file is sound.
            try await scene.expectNothingLost("\(number): \(scene.answers)")
            scene = try await Scene()
            before = try await scene.everything()
            scenes += 1
        }
        try await scene.expectGoodEnd()
        #expect(refused > Self.count / 2)
        Report.line("\(Self.count) spoilt answers: \(refused) refused, \(Self.count - refused) could be true")
    }
}

/// Mutates JSON: equal seeds have equal effects on equal texts.
private struct ReplySpoiler: Sendable {
    let seed: UInt64

    func spoil(_ answer: String) -> String {
        var random = SeededGenerator(seed: seed)
        var bytes = Array(answer.utf8)
        for _ in 0..<Int.random(in: 1...3, using: &random) { spoil(&bytes, &random) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let values = [
        "0", "-1", "1", "4", "9223372036854775807", "-9223372036854775808", "1e999", "0.5", "null", "true", "{}", "[]",
        #""""#, #""x""#, #"{"$blob":"!"}"#, #""\u0000""#, "[[[[[[[]]]]]]]", "-10", "4503599627370496",
    ]

    private func spoil(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        guard !bytes.isEmpty else { return }
        let at = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<8, using: &random) {
        case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes.removeSubrange(at...)
        case 2: bytes.remove(at: at)
        case 3...5:
            // A whole value.
            let tokens = Self.tokens(bytes)
            guard let token = tokens.randomElement(using: &random) else { return }
            let value = Self.values.randomElement(using: &random) ?? "0"
            bytes.replaceSubrange(token, with: Array(value.utf8))
        case 6:
            // Swaps two values.
            let tokens = Self.tokens(bytes).shuffled(using: &random).prefix(2)
            guard
                let (low, high) = tokens.min(by: { $0.lowerBound < $1.lowerBound }).flatMap({ low in
                    tokens.max { $0.lowerBound < $1.lowerBound }.map { (low, $0) }
                }), low != high
            else { return }
            let first = Array(bytes[low])
            let second = Array(bytes[high])
            bytes.replaceSubrange(high, with: first)
            bytes.replaceSubrange(low, with: second)
        default:
            // Duplicates a part.
            let end = min(bytes.count, at + Int.random(in: 1...60, using: &random))
            bytes.insert(contentsOf: Array(bytes[at..<end]), at: at)
        }
    }

    /// The numbers, strings and words of a text, as ranges of bytes.
    private static func tokens(_ bytes: [UInt8]) -> [Range<Int>] {
        let marks = Set("{}[],:".utf8)
        var tokens = [Range<Int>]()
        var start = 0
        var isInString = false
        for (index, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "\"") { isInString.toggle() }
            guard !isInString, marks.contains(byte) else { continue }
            if index > start { tokens.append(start..<index) }
            start = index + 1
        }
        return tokens
    }
}
