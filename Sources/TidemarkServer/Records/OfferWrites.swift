internal import TidemarkCore
internal import TidemarkEngine

/// Offers writes to the store as a change set, and reads the verdict.
///
/// The shell around ``TidemarkEngine/PlanWrites`` and ``TidemarkEngine/AnswerWrites``. Between the two stands the same
/// commit as for devices.
struct OfferWrites: Sendable {
    let service: any SyncService
    /// Whether the answers have no records.
    let isMinimal: Bool
    /// The revision up to which the client has seen the whole zone.
    let seen: Int64?

    /// Returns the answers to writes that stand or fall together, in their order.
    ///
    /// - Throws: ``TidemarkEngine/Problem`` if they are refused; then nothing was done.
    func answers(to requests: [WriteRequest], id: String, _ access: ZoneAccess) async throws -> [WriteAnswer] {
        let (changeSet, verdict) = try await judged(requests, id: id, access)
        if isMinimal, case .committed(let revision, _) = verdict {
            let state = try await service.read(access, ZoneQuestion(isPartOfWrite: true) { try $0.tag(of: revision) })
            return try AnswerWrites(changeSet, committed: state).answers(verdict)
        }
        return try await service.read(
            access,
            ZoneQuestion(isPartOfWrite: true) { try AnswerWrites(changeSet, $0).answers(verdict) }
        )
    }

    /// Returns the change set of the writes, and its verdict.
    ///
    /// Where the zone has begun a new history meanwhile, for instance because a program made a table again, the writes
    /// are planned anew: their tags are judged in the history that the zone has now.
    private func judged(_ requests: [WriteRequest], id: String, _ access: ZoneAccess) async throws -> (
        RecordChangeSet, WriteVerdict
    ) {
        let seen = seen
        var attempt = 1
        while true {
            let changeSet = try await service.read(
                access,
                ZoneQuestion(isPartOfWrite: true) { try PlanWrites($0).changeSet(of: requests, id: id, seen: seen) }
            )
            do { return (changeSet, try await verdict(on: changeSet, access)) } catch let problem as Problem
                where problem.error.code == .epochMismatch && attempt < Self.attemptsMax
            { attempt += 1 }
        }
    }

    /// How often writes are planned in a new history.
    private static let attemptsMax = 5

    private func verdict(on changeSet: RecordChangeSet, _ access: ZoneAccess) async throws -> WriteVerdict {
        do { return try await service.write(changeSet, access) } catch let error as TidemarkError {
            throw changeSet.problem(error)
        }
    }
}
