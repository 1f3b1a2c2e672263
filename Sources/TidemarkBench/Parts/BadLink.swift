import TidemarkCore
import TidemarkTestSupport

/// A link with a long way, on which answers may get lost and stall.
struct BadLink: Sendable {
    /// How long a way there and back takes.
    let roundTrip: Duration
    /// Whether the first answer is lost, and the second one stalls.
    let isBroken: Bool

    /// How long an answer stalls.
    private var stall: Duration { roundTrip * 5 }

    /// Lets happen to the next requests what the link does to them.
    func spoil(_ relay: TCPRelay) async throws {
        guard isBroken else { return }
        let plan = RelayPlan([.answerDropped, .stall(.down, after: 40, for: stall)])
        relay.hangUp()
        relay.follow(plan)
        // Until the client has seen that its connection is gone.
        try await Pause.last(.milliseconds(20))
    }

    /// Times something that is tried again at once for as long as the link is to blame.
    func time(_ work: () async throws -> Void) async throws -> Sample {
        var sample = try await Sample.time {
            var isDone = false
            while !isDone {
                do {
                    try await work()
                    isDone = true
                } catch let error as TidemarkError where error.code == .unreachable && isBroken { continue }
            }
        }
        let trips = sample.seconds / (roundTrip / .seconds(1))
        sample.figures = [Figure("round trips", trips, .count)]
        return sample
    }
}
