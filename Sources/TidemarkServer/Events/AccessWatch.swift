internal import Synchronization
internal import TidemarkCore
internal import TidemarkEngine

/// The latest known moment of the gate, which all listeners share.
///
/// ``ListenerService`` looks at the gate several times a second, however many listeners there are. Before news of a
/// commit goes out, the watch asks the gate again, once for all listeners of the commit. So a listener never
/// receives news of a commit that came after the end of its access.
final class AccessWatch: Sendable {
    private let gate: any AccessGate
    private let latest = Mutex<AccessMoment?>(nil)
    private let looks = Mutex<[String: Look]>([:])

    /// A question to the gate that began after a commit.
    private struct Look {
        let revision: ZoneRevision
        let moment: Task<AccessMoment, any Error>

        /// Whether the question also began after another commit of the zone.
        func isAfter(_ other: ZoneRevision) -> Bool {
            revision.epoch == other.epoch && revision.revision >= other.revision
        }
    }

    /// The most zones whose last look is kept.
    private static let looksMax = 10_000

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

    /// Returns a moment of the gate later than a commit, or without one the last look's; a failure stops all news.
    private func moment(after commit: ZoneRevision?) async throws -> AccessMoment? {
        guard let commit, !planted(PlantedBug.eventsBeforeLook) else { return latest.withLock { $0 } }
        let gate = gate
        let look = looks.withLock { looks in
            if let known = looks[commit.zone], known.isAfter(commit) { return known }
            if looks.count >= Self.looksMax { looks = [:] }
            let look = Look(revision: commit, moment: Task { try await gate.moment() })
            looks[commit.zone] = look
            return look
        }
        do { return try await look.moment.value } catch {
            looks.withLock { if $0[commit.zone]?.moment == look.moment { $0[commit.zone] = nil } }
            throw error
        }
    }

    /// What a listener of a user's zones does with the next message.
    enum Step {
        case stays
        case ends
        /// The rights may have changed: the listener reads them again, and records this moment.
        case decidesAgain(AccessMoment)
    }

    /// Returns the step of a listener that reads its rights itself, before it receives news of a commit.
    func step(of rights: ListenerRights, to commit: ZoneRevision?) async throws -> Step {
        guard let moment = try await moment(after: commit) else { return .stays }
        return switch rights.step(at: moment) {
        case .stays: .stays
        case .ends: .ends
        case .decidesAgain: .decidesAgain(moment)
        }
    }

    /// Decides whether a listener stays before the news of a commit, if any; asks the gate if it has to decide again.
    func admits(_ rights: inout ListenerRights, access: ZoneAccess, token: String?, to commit: ZoneRevision? = nil)
        async throws -> Bool
    {
        // The moment is older than the gate's answer, so a change between them is noticed next time.
        guard let moment = try await moment(after: commit) else { return true }
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
