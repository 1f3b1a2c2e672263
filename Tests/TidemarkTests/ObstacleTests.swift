import Foundation
import Testing
@testable import Tidemark
import TidemarkCore

/// The obstacles of a device's background sync.
@Suite struct ObstacleTests {
    @Test func `each event leads each stage where the table says`() {
        for stage in Obstacle.Stage.allCases {
            for event in Obstacle.Event.allCases {
                let next: Obstacle.Stage =
                    switch event {
                    case .cleared: .clear
                    case .pauseRequested: .paused
                    case .signInRefused: .signInNeeded
                    case .accessRevoked: .accessEnded
                    case .zoneRefused: .zoneUnknown
                    case .pauseEnded: stage == .paused ? .clear : stage
                    case .failed: stage
                    }
                #expect(Obstacle.stage(stage, after: event) == next, "\(stage), \(event)")
            }
        }
    }

    private static func error(_ code: ErrorCode, after seconds: Int? = nil) -> TidemarkError {
        var error = TidemarkError(code, "m", fix: "f")
        error.retryAfterSeconds = seconds
        return error
    }

    @Test(
        arguments: [
            (ErrorCode.signInNeeded, nil, Obstacle.Event.signInRefused), (.signInNeeded, 5, .signInRefused),
            (.accessRevoked, nil, .accessRevoked), (.unknownZone, nil, .zoneRefused),
            (.rateLimited, 5, .pauseRequested),
            (.unavailable, 5, .pauseRequested), (.unavailable, 0, .failed), (.unavailable, nil, .failed),
            (.notAllowed, 5, .failed), (.unreachable, nil, .failed), (.massDeletion, nil, .failed),
        ] as [(ErrorCode, Int?, Obstacle.Event)]
    ) func `an error is the event of its code`(code: ErrorCode, seconds: Int?, event: Obstacle.Event) {
        #expect(Obstacle.Event(Self.error(code, after: seconds)) == event)
    }

    @Test func `a server cannot silence a device for longer than an hour, nor by a clock that is set back`() {
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        var obstacle = Obstacle()
        obstacle.record(Self.error(.rateLimited, after: .max), now: start)
        #expect(obstacle.pauseSeconds(now: start) == 3_600)
        #expect(obstacle.pauseSeconds(now: start + 3_599.5) == 1)
        #expect(obstacle.pauseSeconds(now: start + 3_600) == nil)
        #expect(obstacle.stage == .clear)
        obstacle.record(Self.error(.rateLimited, after: 60), now: start)
        #expect(obstacle.pauseSeconds(now: start - 1) == nil)
        #expect(obstacle.stage == .clear)
    }
}
