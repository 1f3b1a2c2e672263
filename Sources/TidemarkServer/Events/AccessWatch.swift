internal import Synchronization
internal import TidemarkCore
internal import TidemarkEngine

/// The latest known moment of the gate, which all listeners share.
///
/// ``ListenerService`` looks at the gate several times a second, however many listeners there are.
final class AccessWatch: Sendable {
    private let gate: any AccessGate
    private let latest = Mutex<AccessMoment?>(nil)

    init(_ gate: any AccessGate) { self.gate = gate }

    /// Asks the gate for its moment, and returns whether its decisions may have changed since the last look.
    func look() async throws -> Bool {
        let moment = try await gate.moment()
        return latest.withLock { latest in
            defer { latest = moment }
            // A listener that came before the first look may have been admitted before a change.
            guard let latest else { return true }
            return latest.version != moment.version
        }
    }

    /// What a listener of a user's zones does with the next message.
    enum Step {
        /// Nothing has changed.
        case stays
        /// The token has ended.
        case ends
        /// The rights may have changed: the listener reads them again, and records this moment.
        case decidesAgain(AccessMoment)
    }

    /// Returns the step of a listener that reads its rights itself.
    func step(of rights: ListenerRights) -> Step {
        guard let moment = latest.withLock({ $0 }) else { return .stays }
        return switch rights.step(at: moment) {
        case .stays: .stays
        case .ends: .ends
        case .decidesAgain: .decidesAgain(moment)
        }
    }

    /// Decides whether a listener stays, and asks the gate if it has to decide again.
    ///
    /// `access` and `token` are those of the listener's request; a new decision goes into `rights`.
    func admits(_ rights: inout ListenerRights, access: ZoneAccess, token: String?) async throws -> Bool {
        // The moment is older than the gate's answer, so a change between them is noticed next time.
        guard let moment = latest.withLock({ $0 }) else { return true }
        switch rights.step(at: moment) {
        case .stays: return true
        case .ends: return false
        case .decidesAgain:
            let isAdmitted = try await gate.stillAdmits(access, token: token)
            guard isAdmitted || planted(PlantedBug.eventsAfterLeaving) else { return false }
            rights.admit(at: moment)
            return true
        }
    }
}
