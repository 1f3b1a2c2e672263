package import TidemarkCore
package import TidemarkServer

/// What becomes of a request that may be answered from memory.
package enum PullAnswer: Hashable, Sendable {
    /// It is answered.
    case answer(SyncAnswer)
    /// These revisions have to be loaded first.
    case load(ClosedRange<Int64>)
    /// The store has to be asked: something must be written, refused or computed.
    case ask
}

extension RecentChangeSets {
    /// Answers a request that brings nothing, byte for byte as ``TidemarkServer/SyncHandler``
    /// would.
    ///
    /// Whatever is not plain is left to that: a request that does not fit the zone, a device with
    /// notes to forget, a file that is a copy of another.
    package func answer(
        _ request: SyncRequest,
        at head: ZoneHead,
        limits: Limits
    ) -> PullAnswer {
        let zone = head.state
        let revisionsMax = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        guard request.changeSets.isEmpty, request.lap == nil, request.question == nil,
            request.isSettled || request.device == nil,
            request.epoch ?? zone.epoch == zone.epoch,
            request.schema ?? zone.schema == zone.schema,
            (zone.horizon...zone.revision).contains(request.maxRevision),
            !head.hasNotes,
            zone.revision - request.maxRevision <= revisionsMax, let end = head.fingerprint
        else { return .ask }
        switch need(after: request.maxRevision, at: head) {
        case .load(let range): return .load(range)
        case .tooMuch: return .ask
        case .nothing: break
        }
        guard let missed = changeSets(after: request.maxRevision, at: head),
            missed.reduce(0, { $0 + $1.body.utf8.count }) <= limits.catchUpBytesMax
                || missed.count == 1,
            request.device == nil || !missed.contains(where: { $0.device == request.device })
        else { return .ask }
        if let mine = request.fingerprint {
            guard fingerprint(at: request.maxRevision, at: head) == mine else { return .ask }
        }
        return .answer(
            SyncAnswer(
                maxRevision: zone.revision,
                zone: zone,
                hasMore: false,
                fingerprint: end,
                changeSets: missed.map(\.body)
            )
        )
    }
}
