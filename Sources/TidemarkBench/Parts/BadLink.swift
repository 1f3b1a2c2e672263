import TidemarkCore
import TidemarkTestSupport

/// A link with a long delay, on which answers may get lost and stall.
struct BadLink: Sendable {
    /// The time of a way there and back.
    let roundTrip: Duration
    /// Whether the first answer is lost, and the second one stalls.
    let isBroken: Bool

    /// The duration of a stall.
    private var stall: Duration { roundTrip * 5 }

    /// Applies the link's faults to the next requests.
    func spoil(_ relay: TCPRelay) async throws {
        guard isBroken else { return }
        let plan = RelayPlan([.answerDropped, .stall(.down, after: 40, for: stall)])
        relay.hangUp()
        relay.follow(plan)
        // Waits until the client has noticed the end of its connection.
        try await Pause.last(.milliseconds(20))
    }

    /// Times a job that is tried again at once for as long as the link fails.
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
        sample.figures = [Figure("round trips", value: trips, unit: .count)]
        return sample
    }
}
