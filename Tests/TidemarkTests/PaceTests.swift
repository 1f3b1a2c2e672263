import Testing

@testable import Tidemark

/// The pauses of the background loop, and the events that end them.
@Suite struct PaceTests {
    @Test func `rule 20: pauses grow from one second to five minutes, and a success resets them`() {
        var pace = Pace(interval: .seconds(30))
        #expect(pace.pause(jitter: 1) == .seconds(30))
        var pauses: [Duration] = []
        for _ in 0..<40 {
            pace.recordFailure()
            pauses.append(pace.pause(jitter: 1))
        }
        let grown: [Duration] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300].map { .seconds($0) }
        #expect(Array(pauses.prefix(10)) == grown)
        #expect(pauses.last == .seconds(300))
        #expect(pace.pause(jitter: 0.5) == .seconds(150))
        #expect(pace.endsWithEdit)
        pace.recordSuccess()
        #expect(pace.pause(jitter: 1.5) == .seconds(30))
    }

    @Test func `rule 20, D6: a device waits as long as the server asks, with edits or without`() {
        var pace = Pace(interval: .seconds(30))
        pace.recordFailure(retryAfterSeconds: 120)
        #expect(!pace.endsWithEdit)
        #expect(pace.pause(jitter: 0.5) == .seconds(120), "jitter never shortens it")
        #expect(pace.pause(jitter: 1.5) == .seconds(180))
        pace.recordFailure()
        #expect(pace.endsWithEdit, "it holds for one pause")
        #expect(pace.pause(jitter: 1) == .seconds(2))
    }

    @Test(arguments: [Int.max, Int.min, -1, 0, 1_000_000])
    func `rule 21: a server cannot silence a device for longer than an hour`(seconds: Int) {
        var pace = Pace(interval: .seconds(30))
        pace.recordFailure(retryAfterSeconds: seconds)
        #expect(pace.pause(jitter: 1) >= .seconds(1))
        #expect(pace.pause(jitter: 1) <= Pace.requestedPauseMax)
    }
}
