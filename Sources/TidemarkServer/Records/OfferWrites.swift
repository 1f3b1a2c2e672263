internal import TidemarkCore
internal import TidemarkEngine

/// Offers writes to the store as a change set, and reads the verdict.
///
/// The shell around ``TidemarkEngine/PlanWrites`` and ``TidemarkEngine/AnswerWrites``, which decide. Between the two
/// stands the same `sync` as for devices.
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
        let seen = seen
        let changeSet = try await service.read(
            access,
            ZoneQuestion(isPartOfWrite: true) { try PlanWrites($0).changeSet(of: requests, id: id, seen: seen) }
        )
        let verdict = try await verdict(on: changeSet, access)
        if isMinimal, case .committed = verdict { return try AnswerWrites(changeSet, nil).answers(verdict) }
        return try await service.read(
            access,
            ZoneQuestion(isPartOfWrite: true) { try AnswerWrites(changeSet, $0).answers(verdict) }
        )
    }

    private func verdict(on changeSet: RecordChangeSet, _ access: ZoneAccess) async throws -> WriteVerdict {
        do { return try WriteVerdict(try await service.sync(access, body: changeSet.body)) } catch let error
            as TidemarkError
        { throw changeSet.problem(error) }
    }
}
