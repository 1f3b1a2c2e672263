import TidemarkCore

/// The question of a device that finds another history than its own.
extension SyncHandler {
    /// Tells a device that is in another history what became of its change sets, which of them are
    /// known, how far it is in this one, and all of its values that others have overruled.
    func answer(_ question: SyncRequest.Question, of request: SyncRequest, in transaction: some StoreTransaction) throws
        -> String
    {
        let zone = try transaction.zone()
        // The rows come with a snapshot or a delta.
        let copies = try transaction.authorsCopies(of: question.recall, .ids)
        let decided = question.recall.filter { copies[$0] != nil }
        let verdicts = decided.compactMap { copies[$0] }
        let asSent = try decided.filter { try transaction.verdict(of: $0)?.isAsSent == true }.map { "\"\($0)\"" }
        let known = try transaction.known(question.known).map { "\"\($0)\"" }
        let seen = try seen(by: request, at: zone, in: transaction)
        // Under its next id the device cannot ask for them, so all come at once.
        let notes =
            try request.device.map {
                try transaction.overruled(device: $0, taken: 0, through: zone.revision, limit: .max)
            } ?? []
        let overruled = notes.isEmpty ? "" : #""overruled":[\#(notes.joined(separator: ","))],"#
        return #"{"maxRevision":\#(zone.revision),"epoch":"\#(zone.epoch)","more":false,"#
            + #""seen":\#(seen.map(String.init) ?? "null"),"known":[\#(known.joined(separator: ","))],"#
            + #""asSent":[\#(asSent.joined(separator: ","))],\#(overruled)"#
            + #""changeSets":[\#(verdicts.joined(separator: ","))]}"#
    }

    /// The revision up to which the zone still is what the device has seen of it, as far as the
    /// server can tell: by the fingerprint, or because it remembers having brought the device
    /// there.
    private func seen(by request: SyncRequest, at zone: ZoneState, in transaction: some StoreTransaction) throws
        -> Int64?
    {
        if let mine = request.fingerprint, request.epoch == zone.epoch, hasShape(of: zone, request),
            request.maxRevision <= zone.revision, try transaction.fingerprint(at: request.maxRevision) == mine
        {
            return request.maxRevision
        }
        return try request.device.flatMap { try transaction.lastExchange(with: $0)?.revision }
    }
}
