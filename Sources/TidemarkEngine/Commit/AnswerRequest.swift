package import TidemarkCore

/// The answer to a request whose change sets are written.
extension GroupRun {
    /// Makes the answer, and notes the exchange with the device.
    mutating func render(_ turn: Turn, missed: CatchUp) throws -> ZoneAnswer {
        let request = turn.request
        let outcomes = turn.outcomes.compactMap { $0 }
        if let changeSet = turn.incoming.writes { return try answer(outcomes, to: changeSet, turn) }
        try sync.checkSettled(request, missed, knowing: known, in: zone)
        let last = turn.start.revision + turn.addedCount
        let end = missed.hasMore ? missed.revision : last
        let notes = try notes(for: request, through: end)
        try noteExchange(request, end: end, user: turn.incoming.access.caller.userID)
        let lent = try sync.lend(request, in: zone)
        let canCompare = sync.hasShape(of: turn.start, request)
        let fingerprint = canCompare ? try ledger.fingerprints[end] ?? zone.fingerprint(at: end) : nil
        // Without a fingerprint the device cannot verify its own rows, so it receives whole copies.
        let ids = fingerprint == nil || !notes.isEmpty ? [] : outcomes.compactMap(\.ids)
        let isAsSent = !ids.isEmpty && ids.count == outcomes.count
        let changeSets = isAsSent ? ids : try sync.mergeChangeSets(missed, outcomes, of: request, in: zone)
        // Compact last: the answer may contain revisions before the new horizon.
        try compactLog()
        let answer = SyncAnswer(
            maxRevision: end,
            zone: turn.start,
            hasMore: end < last,
            fingerprint: fingerprint,
            overruled: notes,
            lent: lent,
            echo: isAsSent ? .ids : .all,
            changeSets: changeSets
        )
        return ZoneAnswer(
            text: answer.text,
            tally: sync.tally(of: outcomes, lag: turn.start.revision - request.maxRevision),
            device: request.device,
            revision: end
        )
    }

    /// Makes the answer to a client without rows: it has missed nothing, and the books keep nothing but its verdict.
    private mutating func answer(
        _ outcomes: [SyncHandler.Outcome],
        to changeSet: RecordChangeSet,
        _ turn: Turn
    ) throws -> ZoneAnswer {
        let copies = try outcomes.contains { $0.verdict == nil } ? zone.authorsCopies(of: [changeSet.id], .ids) : [:]
        let verdict =
            outcomes.first?.verdict
            ?? copies[changeSet.id].flatMap {
                WriteVerdict(stored: $0, revision: outcomes.first?.revision, of: changeSet)
            }
        guard let verdict else { throw SyncHandler.missingVerdict(turn.request.changeSets[0]) }
        let answers = try AnswerWrites(changeSet: changeSet, zone: zone, state: ledger.state).answers(verdict)
        try compactLog()
        return ZoneAnswer(.writes(answers), tally: sync.tally(of: outcomes, lag: 0))
    }

    private mutating func compactLog() throws {
        guard sync.compactsLog(at: ledger.state) else { return }
        try sync.compact(zone, at: ledger.state)
        ledger.state = try zone.head().state
    }

    /// Returns the notes of the device's overruled values, and forgets those that it has applied.
    private func notes(for request: SyncRequest, through end: Int64) throws -> [String] {
        guard let device = request.device, ledger.facts.devicesWithNotes.contains(device) else { return [] }
        return try zone.overruledNotes(
            device: device,
            after: request.overruled,
            through: end,
            limit: limits.overruledPerAnswerMax
        )
    }

    /// Notes the exchange with the request's device, which belongs to the request's user from now on.
    private mutating func noteExchange(_ request: SyncRequest, end: Int64, user: String?) throws {
        guard let device = request.device else { return }
        let last = try known.exchange(device)
        if let lap = request.lap {
            ledger.exchanges[device] = Exchange(lap: lap.next, revision: end, user: last?.user ?? user)
        } else if let user, last?.user == nil {
            ledger.exchanges[device] = Exchange(lap: last?.lap ?? "", revision: last?.revision ?? end, user: user)
        }
    }
}

/// The envelope of a change set in an answer.
package struct AnswerEnvelope {
    /// The change set's id.
    package let id: String?
    /// The revision that it became.
    package var revision: Int64?
    /// The author's time.
    package var time: Int64?
    /// The reasons of a conflict; nil for an accepted change set.
    package var reasons: [ConflictReason]?
    /// Records with overruled values, JSON each.
    package var overruled: [String] = []

    /// Makes an envelope.
    package init(id: String?, revision: Int64? = nil, time: Int64? = nil, reasons: [ConflictReason]? = nil) {
        self.id = id
        self.revision = revision
        self.time = time
        self.reasons = reasons
    }

    /// The JSON members, in the order of the wire format.
    package var members: [String] {
        var members: [String] = []
        if let id { members.append(#""id":"\#(id)""#) }
        if let revision { members.append(#""revision":\#(revision)"#) }
        if let time { members.append(#""time":\#(time)"#) }
        members.append(#""conflict":\#(reasons != nil)"#)
        if let reasons { members.append(#""reasons":[\#(reasons.map(json).joined(separator: ","))]"#) }
        if !overruled.isEmpty { members.append(#""overruled":[\#(overruled.joined(separator: ","))]"#) }
        return members
    }

    private func json(_ reason: ConflictReason) -> String {
        let columns = reason.columns.map(JSONText.quote).joined(separator: ",")
        let key = reason.key.isEmpty ? "" : #""key":\#(reason.key),"#
        return #"{"table":\#(JSONText.quote(reason.table)),\#(key)"columns":[\#(columns)],"#
            + #""rule":"\#(reason.rule)","message":\#(JSONText.quote(reason.message))}"#
    }
}

/// The answer to a sync request.
package struct SyncAnswer: Hashable, Sendable {
    /// The device's revision after it applies the answer.
    package let maxRevision: Int64
    /// The zone's state.
    package let zone: ZoneState
    /// Whether later revisions remain.
    package let hasMore: Bool
    /// The fingerprint of the zone's rows at ``maxRevision``, if it is known.
    package let fingerprint: Fingerprint?
    /// Notes of overruled values, JSON each.
    package let overruled: [String]
    /// The ids that the device is lent, by table.
    package let lent: [String: [LentIDs]]
    /// How much of the device's own change sets the answer repeats.
    package let echo: SyncRequest.Echo
    /// The change sets, JSON each, in the order in which they are applied.
    package let changeSets: [String]

    /// Makes an answer.
    package init(
        maxRevision: Int64,
        zone: ZoneState,
        hasMore: Bool,
        fingerprint: Fingerprint?,
        overruled: [String] = [],
        lent: [String: [LentIDs]] = [:],
        echo: SyncRequest.Echo = .all,
        changeSets: [String]
    ) {
        self.maxRevision = maxRevision
        self.zone = zone
        self.hasMore = hasMore
        self.fingerprint = fingerprint
        self.overruled = overruled
        self.lent = lent
        self.echo = echo
        self.changeSets = changeSets
    }

    /// The answer as JSON.
    package var text: String {
        let notes = overruled.isEmpty ? "" : #""overruled":[\#(overruled.joined(separator: ","))],"#
        let fingerprintMember = fingerprint.map { #""fingerprint":"\#($0)","# } ?? ""
        let lent = lent.isEmpty ? "" : #""lent":{\#(lentMembers.joined(separator: ","))},"#
        let echo =
            switch echo {
            case .all: ""
            case .ids: #""echo":"ids","#
            }
        return #"{"maxRevision":\#(maxRevision),"epoch":"\#(zone.epoch)","schema":"\#(zone.schema)","#
            + #""more":\#(hasMore),\#(echo)\#(fingerprintMember)\#(notes)\#(lent)"#
            + #""changeSets":[\#(changeSets.joined(separator: ","))]}"#
    }

    /// Each table's lent ids: arrays of first, last, stride and width.
    private var lentMembers: [String] {
        lent.sorted { $0.key < $1.key }.map { table, ids in
            let list = ids.map { "[\($0.first),\($0.last),\($0.stride),\($0.width)]" }.joined(separator: ",")
            return "\(JSONText.quote(table)):[\(list)]"
        }
    }
}
