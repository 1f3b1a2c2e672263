import TidemarkCore

/// The question of a device whose history differs from the zone's.
extension SyncHandler {
    /// Answers the verdicts of a device's change sets, the ids with a verdict, the last revision
    /// that the device shares with this history, and all notes of its overruled values.
    func answer(
        _ question: SyncRequest.Question,
        of request: SyncRequest,
        from caller: Caller,
        in transaction: some ZoneBooks
    ) throws -> String {
        try checkOwner(request, caller, knowing: KnownState(transaction))
        let zone = try transaction.zone()
        // The device receives the rows in a snapshot or a delta.
        let copies = try transaction.authorsCopies(of: question.recall, .ids)
        var verdicts: [String] = []
        var asSent: [String] = []
        for id in question.recall {
            guard let copy = copies[id], let verdict = try transaction.verdict(of: id),
                try isOwn(verdict, of: request, from: caller, KnownState(transaction))
            else { continue }
            verdicts.append(copy)
            if verdict.isAsSent { asSent.append("\"\(id)\"") }
        }
        let known = try transaction.idsWithVerdict(question.known).map { "\"\($0)\"" }
        let shared = try lastSharedRevision(with: request, at: zone, in: transaction)
        // The device changes its id afterwards and cannot request them again, so send all at once.
        let notes =
            try request.device.map {
                try transaction.overruledNotes(device: $0, after: 0, through: zone.revision, limit: .max)
            } ?? []
        let overruled = notes.isEmpty ? "" : #""overruled":[\#(notes.joined(separator: ","))],"#
        return #"{"maxRevision":\#(zone.revision),"epoch":"\#(zone.epoch)","more":false,"#
            + #""seen":\#(shared.map(String.init) ?? "null"),"known":[\#(known.joined(separator: ","))],"#
            + #""asSent":[\#(asSent.joined(separator: ","))],\#(overruled)"#
            + #""changeSets":[\#(verdicts.joined(separator: ","))]}"#
    }

    /// Finds the last revision that the device and the zone share, as far as the server can prove it.
    ///
    /// The proof is an equal fingerprint, or the last exchange with the device.
    private func lastSharedRevision(
        with request: SyncRequest,
        at zone: ZoneState,
        in transaction: some ZoneBooks
    ) throws -> Int64? {
        if let fingerprint = request.fingerprint, request.epoch == zone.epoch, hasShape(of: zone, request),
            request.maxRevision <= zone.revision, try transaction.fingerprint(at: request.maxRevision) == fingerprint
        {
            return request.maxRevision
        }
        return try request.device.flatMap { try transaction.lastExchange(with: $0)?.revision }
    }
}
