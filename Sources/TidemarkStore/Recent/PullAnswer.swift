package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// What becomes of a question that may be answered from memory.
package enum FromMemory<Answer: Hashable & Sendable>: Hashable, Sendable {
    /// It is answered.
    case answer(Answer)
    /// These revisions have to be loaded first.
    case load(ClosedRange<Int64>)
    /// The store has to be asked: something must be written, refused or computed.
    case ask
}

/// What becomes of a request.
package typealias PullAnswer = FromMemory<SyncAnswer>

extension ZoneTag {
    /// The tag of whoever has the rows of a zone at a revision.
    init(of zone: ZoneState, revision: Int64, _ fingerprint: Fingerprint) {
        self.init(epoch: zone.epoch, schema: zone.schema, revision: revision, fingerprint: fingerprint)
    }
}

extension RecentChangeSets {
    /// Answers a settled device that says by a tag what it has, as if it had said everything.
    ///
    /// The tag stands for what such a request is compared with: the history, the schema and the
    /// fingerprint of its rows. Where they are not those of the zone at that revision, something
    /// is to be refused or told that is not said here.
    package func news(for device: String, since tag: ZoneTag, at head: ZoneHead, limits: Limits) -> PullAnswer {
        let request = SyncRequest.asking(after: tag.revision, device)
        let outcome = answer(request, at: head, limits: limits)
        guard case .answer = outcome, !planted(PlantedBug.believesAnyTag) else { return outcome }
        guard let fingerprint = fingerprint(at: tag.revision, at: head),
            tag == ZoneTag(of: head.state, revision: tag.revision, fingerprint)
        else { return .ask }
        return outcome
    }

    /// What has led from a revision to the zone's latest, as a device is answered that has the rows
    /// of that revision.
    ///
    /// A device for which notes were made on the way has to ask for them.
    package func change(after base: ZoneRevision, at head: ZoneHead, limits: Limits) -> FromMemory<ZoneChange> {
        guard base.epoch == head.state.epoch, base.revision < head.state.revision,
            head.lastNoted.map({ $0 <= base.revision }) ?? true
        else { return .ask }
        switch answer(.asking(after: base.revision), at: head, limits: limits) {
        case .load(let range): return .load(range)
        case .ask: return .ask
        case .answer(let answer):
            let text = answer.text
            guard text.utf8.count <= limits.changeEventBytesMax,
                let missed = changeSets(after: base.revision, at: head),
                let fingerprint = fingerprint(at: base.revision, at: head)
            else { return .ask }
            let change = ZoneChange(
                base: base,
                since: ZoneTag(of: head.state, revision: base.revision, fingerprint),
                end: ZoneRevision(zone: base.zone, epoch: base.epoch, revision: answer.maxRevision),
                authors: Set(missed.compactMap(\.device)),
                answer: text
            )
            return .answer(change)
        }
    }

    /// Answers a request that brings nothing, byte for byte as ``TidemarkServer/SyncHandler``
    /// would.
    ///
    /// Whatever is not plain is left to that: a request that does not fit the zone, a device with
    /// notes to forget, a file that is a copy of another.
    package func answer(_ request: SyncRequest, at head: ZoneHead, limits: Limits) -> PullAnswer {
        let zone = head.state
        let revisionsMax = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        guard request.changeSets.isEmpty, request.lap == nil, request.question == nil, request.echo != .verdicts,
            request.isSettled || request.device == nil, request.epoch ?? zone.epoch == zone.epoch,
            request.schema ?? zone.schema == zone.schema, (zone.horizon...zone.revision).contains(request.maxRevision),
            !head.hasNotes, zone.revision - request.maxRevision <= revisionsMax, let end = head.fingerprint
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

extension SyncRequest {
    /// A settled device's question what is new.
    fileprivate static func asking(after revision: Int64, _ device: String? = nil) -> SyncRequest {
        SyncRequest(
            maxRevision: revision,
            device: device,
            epoch: nil,
            schema: nil,
            limit: nil,
            isSettled: true,
            takesDelta: true,
            changeSets: []
        )
    }
}
