import TidemarkCore

/// The question of a device whose history differs from the zone's.
extension GroupRun {
    /// Answers the verdicts of a device's change sets, the ids with a verdict, the last revision
    /// that the device shares with this history, and all notes of its overruled values.
    func answer(_ question: SyncRequest.Question, of request: SyncRequest, from caller: Caller) throws -> String {
        try sync.checkOwner(request, caller, knowing: known)
        let state = ledger.state
        // The device receives the rows in a snapshot or a delta.
        let copies = try zone.authorsCopies(of: question.recall, .ids)
        var verdicts: [String] = []
        var asSent: [String] = []
        for id in question.recall {
            guard let copy = copies[id], let verdict = ledger.facts.verdicts[id],
                sync.isOwn(verdict, of: request, from: caller)
            else { continue }
            verdicts.append(copy)
            if verdict.isAsSent { asSent.append("\"\(id)\"") }
        }
        let decided = question.known.filter { ledger.facts.verdicts[$0] != nil }.map { "\"\($0)\"" }
        let shared = try lastSharedRevision(with: request)
        // The device changes its id afterwards and cannot request them again, so send all at once.
        let notes =
            try request.device.map {
                try zone.overruledNotes(device: $0, after: 0, through: state.revision, limit: .max)
            } ?? []
        let overruled = notes.isEmpty ? "" : #""overruled":[\#(notes.joined(separator: ","))],"#
        return #"{"maxRevision":\#(state.revision),"epoch":"\#(state.epoch)","more":false,"#
            + #""seen":\#(shared.map(String.init) ?? "null"),"known":[\#(decided.joined(separator: ","))],"#
            + #""asSent":[\#(asSent.joined(separator: ","))],\#(overruled)"#
            + #""changeSets":[\#(verdicts.joined(separator: ","))]}"#
    }

    /// Finds the last revision that device and zone provably share, by an equal fingerprint or their last exchange.
    private func lastSharedRevision(with request: SyncRequest) throws -> Int64? {
        let state = ledger.state
        if let fingerprint = request.fingerprint, request.epoch == state.epoch, sync.hasShape(of: state, request),
            request.maxRevision <= state.revision, try known.fingerprint(request.maxRevision) == fingerprint
        {
            return request.maxRevision
        }
        return try request.device.flatMap { try known.exchange($0)?.revision }
    }
}
