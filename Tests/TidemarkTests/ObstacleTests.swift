import Foundation
import Testing
@testable import Tidemark
import TidemarkCore

/// The obstacles of a device's background sync.
@Suite struct ObstacleTests {
    private static func error(_ code: ErrorCode, after seconds: Int? = nil) -> TidemarkError {
        var error = TidemarkError(code, "m", fix: "f")
        error.retryAfterSeconds = seconds
        return error
    }

    private static let start = Date(timeIntervalSince1970: 1_800_000_000)
    private static let pause = SyncObstacle.pause(until: "2027-01-15T08:00:05Z")

    @Test(
        arguments: [
            (.signInNeeded, nil, .signInNeeded), (.signInNeeded, 5, .signInNeeded),
            (.accountMismatch, nil, .signInNeeded), (.accessRevoked, nil, .accessEnded),
            (.unknownZone, nil, .zoneUnknown), (.rateLimited, 5, pause), (.unavailable, 5, pause),
            (.unavailable, 0, nil), (.unavailable, nil, nil), (.notAllowed, 5, nil), (.unreachable, nil, nil),
            (.massDeletion, nil, nil),
        ] as [(ErrorCode, Int?, SyncObstacle?)]
    ) func `an error replaces any obstacle by that of its code, or leaves it`(
        code: ErrorCode, seconds: Int?, next: SyncObstacle?
    ) {
        for former in [nil, .accessRevoked, .unknownZone, .signInNeeded, .rateLimited] as [ErrorCode?] {
            var obstacle = Obstacle()
            if let former { obstacle.record(Self.error(former, after: 60), now: Self.start) }
            let before = obstacle.current
            #expect((before == nil) == (former == nil))
            obstacle.record(Self.error(code, after: seconds), now: Self.start)
            #expect(obstacle.current == next ?? before)
        }
    }

    @Test func `a server cannot silence a device for longer than an hour, nor by a clock that is set back`() {
        let start = Self.start
        var obstacle = Obstacle()
        obstacle.record(Self.error(.rateLimited, after: .max), now: start)
        #expect(obstacle.pauseSeconds(now: start) == 3_600)
        #expect(obstacle.pauseSeconds(now: start + 3_599.5) == 1)
        #expect(obstacle.pauseSeconds(now: start + 3_600) == nil)
        #expect(obstacle.current == nil)
        obstacle.record(Self.error(.rateLimited, after: 60), now: start)
        #expect(obstacle.pauseSeconds(now: start - 1) == nil)
        #expect(obstacle.current == nil)
    }
}
