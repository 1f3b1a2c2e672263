internal import Foundation
internal import Synchronization
internal import TidemarkHistory
internal import TidemarkTestSupport

/// The random choices of a campaign, in two streams of their own: those that everybody may notice, and those
/// of the hidden zone.
///
/// Without the hidden zone, the choices of everybody else stay the same.
final class SecrecyRandom: Sendable {
    private struct Streams {
        var choices: [SeededGenerator]
        /// The source of the server's names and secrets.
        var secrets: [SeededGenerator]
        var canaries: [UInt64] = [0, 1 << 60]
        var isHidden = false

        var index: Int { isHidden ? 1 : 0 }
    }

    private let streams: Mutex<Streams>

    init(seed: UInt64) {
        let seeds = [seed &* 4, seed &* 4 &+ 1, seed &* 4 &+ 2, seed &* 4 &+ 3].map(SeededGenerator.init)
        streams = Mutex(Streams(choices: [seeds[0], seeds[1]], secrets: [seeds[2], seeds[3]]))
    }

    /// Whether the next choices are about the hidden zone.
    var isHidden: Bool {
        get { streams.withLock { $0.isHidden } }
        set { streams.withLock { $0.isHidden = newValue } }
    }

    /// Returns a number below `count`.
    func draw(_ count: Int) -> Int { streams.withLock { Int($0.choices[$0.index].next() % UInt64(max(1, count))) } }

    /// Returns an element; nil if there is none.
    func pick<Element>(_ elements: [Element]) -> Element? { elements.isEmpty ? nil : elements[draw(elements.count)] }

    /// Returns a new canary.
    func canary() -> String {
        streams.withLock { streams in
            streams.canaries[streams.index] += 1
            return SecretFinder.canary(streams.canaries[streams.index])
        }
    }

    /// Returns a new UUID in lower case.
    func uuid() -> String {
        let digits = streams.withLock { streams in
            [0, 0].map { _ in
                let digits = String(streams.choices[streams.index].next(), radix: 16)
                return String(repeating: "0", count: 16 - digits.count) + digits
            }.joined()
        }
        var rest = digits[...]
        return [8, 4, 4, 4, 12].map { length in
            defer { rest = rest.dropFirst(length) }
            return String(rest.prefix(length))
        }.joined(separator: "-")
    }

    /// Returns a generator for the next name or secret of the server.
    func secrets() -> SeededGenerator { streams.withLock { SeededGenerator(seed: $0.secrets[$0.index].next()) } }
}
