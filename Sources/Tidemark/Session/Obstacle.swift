import Foundation
import TidemarkCore

/// The reason why a device's background sync sends nothing for a while.
///
/// A pause ends at the time that the server named; until then ``SyncEngine/sync(acceptingMassDeletion:)`` sends nothing
/// either. Every other obstacle ends with other credentials, or a successful sync; the loop tries after five minutes.
struct Obstacle: Sendable {
    private(set) var current: SyncObstacle?
    private var pause: (start: Date, seconds: Int)?

    /// Records a failed sync, which may leave the obstacle as it is.
    mutating func record(_ error: TidemarkError, now: Date) {
        switch error.code {
        case .signInNeeded, .accountMismatch: current = .signInNeeded
        case .unknownZone: current = .zoneUnknown
        case _ where error.recovery == .leave: current = .accessEnded
        case _ where error.recovery == .retry && error.retryAfterSeconds ?? 0 > 0:
            let seconds = min(error.retryAfterSeconds ?? 0, Int(Pace.requestedPauseMax / .seconds(1)))
            pause = (now, seconds)
            current = .pause(until: Timestamp.text(now.addingTimeInterval(Double(seconds))))
        default: break
        }
    }

    /// Returns the rest of the pause in seconds; ends it if it is over, or if the clock was set back.
    mutating func pauseSeconds(now: Date) -> Int? {
        guard case .pause = current, let pause else { return nil }
        let age = now.timeIntervalSince(pause.start)
        if age >= 0, age < Double(pause.seconds) { return Int((Double(pause.seconds) - age).rounded(.up)) }
        current = nil
        return nil
    }
}
