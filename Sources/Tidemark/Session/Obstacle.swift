import Foundation
import TidemarkCore

/// The reason why a device's background sync sends nothing for a while.
///
/// | stage | ends with |
/// | --- | --- |
/// | clear | |
/// | paused | the time that the server named; until then ``SyncEngine/sync(acceptingMassDeletion:)`` sends nothing either |
/// | signInNeeded, accessEnded, zoneUnknown | other credentials, or a successful sync; the loop tries after five minutes |
struct Obstacle: Sendable {
    enum Stage: CaseIterable { case clear, paused, signInNeeded, accessEnded, zoneUnknown }

    enum Event: CaseIterable {
        /// A sync succeeded, or the app has other credentials.
        case cleared
        /// The server asked for a pause.
        case pauseRequested
        /// The requested pause is over.
        case pauseEnded
        /// The server accepts no token that the device has.
        case signInRefused
        /// The user is no longer a member of the zone.
        case accessRevoked
        /// The server has no such zone for this user.
        case zoneRefused
        /// A sync failed in another way.
        case failed

        init(_ error: TidemarkError) {
            self =
                switch error.code {
                case .signInNeeded, .accountMismatch: .signInRefused
                case .unknownZone: .zoneRefused
                case _ where error.recovery == .leave: .accessRevoked
                case _ where error.recovery == .retry && error.retryAfterSeconds ?? 0 > 0: .pauseRequested
                default: .failed
                }
        }
    }

    private(set) var stage = Stage.clear
    private var pause: (start: Date, seconds: Int)?

    static func stage(_ stage: Stage, after event: Event) -> Stage {
        switch (stage, event) {
        case (_, .cleared): .clear
        case (_, .pauseRequested): .paused
        case (_, .signInRefused): .signInNeeded
        case (_, .accessRevoked): .accessEnded
        case (_, .zoneRefused): .zoneUnknown
        case (.paused, .pauseEnded): .clear
        case (_, .pauseEnded), (_, .failed): stage
        }
    }

    /// Records a success, or other credentials.
    mutating func clear() { stage = Self.stage(stage, after: .cleared) }

    mutating func record(_ error: TidemarkError, now: Date) {
        let event = Event(error)
        stage = Self.stage(stage, after: event)
        guard case .pauseRequested = event else { return }
        pause = (now, min(error.retryAfterSeconds ?? 0, Int(Pace.requestedPauseMax / .seconds(1))))
    }

    /// Returns the rest of the pause in seconds; ends it if it is over, or if the clock was set back.
    mutating func pauseSeconds(now: Date) -> Int? {
        guard stage == .paused, let pause else { return nil }
        let age = now.timeIntervalSince(pause.start)
        if age >= 0, age < Double(pause.seconds) { return Int((Double(pause.seconds) - age).rounded(.up)) }
        stage = Self.stage(stage, after: .pauseEnded)
        return nil
    }

    mutating func currentDescription(now: Date) -> SyncObstacle? {
        _ = pauseSeconds(now: now)
        return description
    }

    /// The obstacle as a status shows it; nil if there is none.
    var description: SyncObstacle? {
        switch stage {
        case .clear: nil
        case .paused: pause.map { .pause(until: Timestamp.text($0.start.addingTimeInterval(Double($0.seconds)))) }
        case .signInNeeded: .signInNeeded
        case .accessEnded: .accessEnded
        case .zoneUnknown: .zoneUnknown
        }
    }
}
