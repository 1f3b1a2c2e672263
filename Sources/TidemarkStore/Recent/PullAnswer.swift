package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// What becomes of a request that may be answered from memory.
package enum PullAnswer: Hashable, Sendable {
    /// It is answered.
    case answer(SyncAnswer)
    /// These revisions have to be loaded first.
    case load(ClosedRange<Int64>)
    /// The store has to be asked: something must be written, refused or computed.
    case ask
}

extension ZoneTag {
    /// The tag of whoever has the rows of a zone at a revision.
    init(of zone: ZoneState, revision: Int64, _ fingerprint: Fingerprint) {
        self.init(
            epoch: zone.epoch,
            schema: zone.schema,
            revision: revision,
            fingerprint: fingerprint
        )
    }
}

extension RecentChangeSets {
    /// Answers a settled device that says by a tag what it has, as if it had said everything.
    ///
    /// The tag stands for what such a request is compared with: the history, the schema and the
    /// fingerprint of its rows. Where they are not those of the zone at that revision, something
    /// is to be refused or told that is not said here.
    package func news(
        for device: String,
        since tag: ZoneTag,
        at head: ZoneHead,
        limits: Limits
    ) -> PullAnswer {
        let request = SyncRequest(
            maxRevision: tag.revision,
            device: device,
            epoch: nil,
            schema: nil,
            limit: nil,
            isSettled: true,
            takesDelta: true,
            changeSets: []
        )
        let outcome = answer(request, at: head, limits: limits)
        guard case .answer = outcome, !planted(PlantedBug.believesAnyTag) else { return outcome }
        guard let fingerprint = fingerprint(at: tag.revision, at: head),
            tag == ZoneTag(of: head.state, revision: tag.revision, fingerprint)
        else { return .ask }
        return outcome
    }

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
        guard let missed = changeSets(after: request.maxRevision, at: head) else { return .ask }
        let bytes = missed.reduce(0) { $0 + $1.body.utf8.count }
        guard bytes <= limits.catchUpBytesMax || missed.count == 1,
            !request.takesDelta || bytes <= limits.deltaBytesMin,
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
