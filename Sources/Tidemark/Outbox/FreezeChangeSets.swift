import GRDB
import TidemarkCore
import TidemarkSQLite

/// Turns waiting change sets into what is sent.
///
/// From then on a change set is frozen: it is sent again, however often, byte for byte, because the
/// server may have it already.
struct FreezeChangeSets {
    let db: Database
    let schema: SyncSchema
    /// The history that the file is in.
    let epoch: String
    let limits: Limits

    /// What goes into a request.
    struct Outgoing {
        /// The ids of the change sets.
        var ids: [String] = []
        /// The change sets as they are sent, with commas between them.
        var text: [UInt8] = []
        /// Whether some of them were frozen just now, so that no server can have seen them.
        var hasFresh = false
    }

    /// A change set in the outbox.
    struct Waiting {
        let seq: Int64
        let id: String
        let epoch: String?
        let time: Int64
        /// Its text, once it is frozen.
        var wire: Wire?
    }

    /// A frozen text: what stands in the change set's row, and how much more there is of it.
    struct Wire {
        var beginning = ""
        var rest = 0
    }

    /// The change sets to send now, oldest first: at least one, then as many as the limits allow.
    ///
    /// With `freezesMore` false, only those that were frozen before.
    func outgoing(countMax: Int, freezesMore: Bool) throws -> Outgoing {
        try RenumberUsed(db: db, schema: schema).run()
        var outgoing = Outgoing()
        var rest = try waiting(countMax)[...]
        while let first = rest.first, outgoing.ids.isEmpty || outgoing.text.count < limits.outgoingBytesTarget {
            guard first.wire != nil || freezesMore else { break }
            guard first.epoch == epoch else { throw Self.otherHistory(first.id) }
            if first.wire != nil {
                try append(first, to: &outgoing)
                rest.removeFirst()
                continue
            }
            let batch = try next(
                rest.prefix { $0.wire == nil && $0.epoch == epoch },
                bytes: limits.outgoingBytesTarget - outgoing.text.count
            )
            // Numbers that are out of order would give a batch of none, for ever.
            guard !batch.sets.isEmpty else { throw TidemarkError.unreadable("The outbox") }
            for set in try freeze(batch) {
                try append(set, to: &outgoing)
                outgoing.hasFresh = true
            }
            rest.removeFirst(batch.sets.count)
        }
        return outgoing
    }

    private func waiting(_ countMax: Int) throws -> [Waiting] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT seq, id, epoch, time, wire, (
                        SELECT sum(length(text)) FROM tidemark_wire_rest AS r WHERE r.seq = c.seq) AS rest
                    FROM tidemark_changeset AS c ORDER BY seq LIMIT ?
                    """
            ),
            arguments: [countMax]
        ).map { row in
            let wire = try (row.value("wire") as String?).map { try Wire(beginning: $0, rest: row.value("rest") ?? 0) }
            return Waiting(
                seq: try row.value("seq"),
                id: try row.value("id"),
                epoch: try row.value("epoch"),
                time: try row.value("time"),
                wire: wire
            )
        }
    }

    private func append(_ set: Waiting, to outgoing: inout Outgoing) throws {
        guard let wire = set.wire else { return }
        if !outgoing.ids.isEmpty { outgoing.text.append(UInt8(ascii: ",")) }
        outgoing.text += wire.beginning.utf8
        if wire.rest > 0, !planted(PlantedBug.cutsLongSets) {
            try WireText.appendRest(of: set.seq, wire.rest, to: &outgoing.text, in: db)
        }
        outgoing.ids.append(set.id)
    }

    /// A base is a revision of one history, and is never read in another.
    private static func otherHistory(_ id: String) -> TidemarkError {
        TidemarkError(
            .epochMismatch,
            "The change set \(id) was made on rows of another history.",
            fix: "The rows are taken anew from a snapshot, and the change set is judged by them."
        )
    }
}
