package import TidemarkCore

/// The result of an attempt to answer from memory.
package enum FromMemory<Answer: Hashable & Sendable>: Hashable, Sendable {
    case answer(Answer)
    /// The caller has to load these revisions first.
    case load(ClosedRange<Int64>)
    /// Only the store can answer: it has to write, refuse or compute something.
    case ask
}

package typealias PullAnswer = FromMemory<SyncAnswer>

extension ZoneTag {
    /// The tag of a device that has the zone's rows at a revision.
    init(of zone: ZoneState, revision: Int64, _ fingerprint: Fingerprint) {
        self.init(epoch: zone.epoch, schema: zone.schema, revision: revision, fingerprint: fingerprint)
    }
}

extension RecentChangeSets {
    /// Answers the conditional GET of a settled device like its full sync request.
    ///
    /// The tag contains the epoch, the schema hash and the fingerprint of the device's rows. If they
    /// differ from the zone's at that revision, only the store can answer.
    package func news(for device: String, since tag: ZoneTag, at head: ZoneHead, limits: Limits) -> PullAnswer {
        let request = SyncRequest.pull(after: tag.revision, device)
        let outcome = answer(request, at: head, limits: limits)
        guard case .answer = outcome, !planted(PlantedBug.believesAnyTag) else { return outcome }
        guard let fingerprint = fingerprint(at: tag.revision, at: head),
            tag == ZoneTag(of: head.state, revision: tag.revision, fingerprint)
        else { return .ask }
        return outcome
    }

    /// Returns the change from a revision to the latest, to push; with notes of overruled values, devices have to ask.
    package func change(after base: ZoneRevision, at head: ZoneHead, limits: Limits) -> FromMemory<ZoneChange> {
        guard base.epoch == head.state.epoch, base.revision < head.state.revision,
            head.lastNoteRevision.map({ $0 <= base.revision }) ?? true
        else { return .ask }
        switch answer(.pull(after: base.revision), at: head, limits: limits) {
        case .load(let range): return .load(range)
        case .ask: return .ask
        case .answer(let answer):
            let text = answer.text
            guard text.utf8.count <= limits.changeEventBytesMax,
                let missed = changeSets(after: base.revision, at: head),
                let fingerprint = fingerprint(at: base.revision, at: head)
            else { return .ask }
            let change = ZoneChange(
                base: base, since: ZoneTag(of: head.state, revision: base.revision, fingerprint),
                end: ZoneRevision(zone: base.zone, epoch: base.epoch, revision: answer.maxRevision),
                authors: Set(missed.compactMap(\.device)), answer: text)
            return .answer(change)
        }
    }

    /// Answers a request without change sets, with the same bytes as ``TidemarkEngine/SyncHandler``.
    ///
    /// It leaves others to the handler: of another state of the zone, with notes, or of a forgotten or copied device.
    package func answer(_ request: SyncRequest, at head: ZoneHead, limits: Limits) -> PullAnswer {
        let zone = head.state
        let revisionsMax = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        guard request.changeSets.isEmpty, request.lap == nil, request.question == nil, request.lend.isEmpty,
            request.isSettled || request.device == nil, request.epoch ?? zone.epoch == zone.epoch,
            request.schema ?? zone.schema == zone.schema, (zone.horizon...zone.revision).contains(request.maxRevision),
            !head.hasMessages, zone.revision - request.maxRevision <= revisionsMax, let end = head.fingerprint
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
        if let deviceFingerprint = request.fingerprint {
            guard fingerprint(at: request.maxRevision, at: head) == deviceFingerprint else { return .ask }
        }
        return .answer(
            SyncAnswer(
                maxRevision: zone.revision, zone: zone, hasMore: false, fingerprint: end, changeSets: missed.map(\.body)
            ))
    }
}

extension SyncRequest {
    fileprivate static func pull(after revision: Int64, _ device: String? = nil) -> SyncRequest {
        var request = SyncRequest(maxRevision: revision)
        request.device = device
        request.isSettled = true
        request.takesDelta = true
        return request
    }
}
