import GRDB
import TidemarkCore
import TidemarkSQL

/// Freezes pending change sets: renders the JSON to send and stores it.
///
/// The device sends a frozen change set byte for byte at every retry, because the server may have it already.
struct FreezeChangeSets {
    let db: Database
    let schema: SyncSchema
    let epoch: String
    let limits: Limits

    struct Outgoing {
        var ids: [String] = []
        /// The frozen JSON of the change sets, separated by commas.
        var text: [UInt8] = []
        /// Those that were frozen for this request, so that no server can know them.
        var freshIDs: Set<String> = []
    }

    struct Waiting {
        let seq: Int64
        let id: String
        let epoch: String?
        let time: Int64
        /// The frozen text; nil before the freeze.
        var wire: Wire?
    }

    /// A frozen text: the first piece, from the change set's row, and the size of the overflow.
    struct Wire {
        var beginning = ""
        /// In bytes or characters; it serves to reserve memory.
        var overflow = 0
    }

    /// Returns the change sets to send, oldest first, at least one; without `freezesMore`, only those already frozen.
    func outgoing(countMax: Int, freezesMore: Bool) throws -> Outgoing {
        try ReplaceReusedIDs(db: db, schema: schema).run()
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
                bytes: limits.outgoingBytesTarget - outgoing.text.count)
            // In a damaged file, unsorted numbers could give empty batches in an endless loop.
            guard !batch.sets.isEmpty else { throw TidemarkError.unreadable("The outbox") }
            for set in try freeze(batch) {
                try append(set, to: &outgoing)
                outgoing.freshIDs.insert(set.id)
            }
            rest.removeFirst(batch.sets.count)
        }
        return outgoing
    }

    private func waiting(_ countMax: Int) throws -> [Waiting] {
        try Row.fetchAll(
            db,
            cached: """
                SELECT seq, id, epoch, time, wire, (
                    SELECT sum(length(text)) FROM tidemark_wire_rest AS piece
                    WHERE piece.seq = changeset.seq) AS overflow
                FROM tidemark_changeset AS changeset
                ORDER BY seq
                LIMIT ?
                """, arguments: [countMax]
        ).map { row in
            let wire = try (row.value("wire") as String?).map {
                try Wire(beginning: $0, overflow: row.value("overflow") ?? 0)
            }
            return Waiting(
                seq: try row.value("seq"), id: try row.value("id"), epoch: try row.value("epoch"),
                time: try row.value("time"), wire: wire)
        }
    }

    private func append(_ set: Waiting, to outgoing: inout Outgoing) throws {
        guard let wire = set.wire else { return }
        if !outgoing.ids.isEmpty { outgoing.text.append(UInt8(ascii: ",")) }
        outgoing.text += wire.beginning.utf8
        if wire.overflow > 0, !planted(PlantedBug.cutsLongSets) {
            try WireText.appendOverflow(of: set.seq, wire.overflow, to: &outgoing.text, in: db)
        }
        outgoing.ids.append(set.id)
    }

    private static func otherHistory(_ id: String) -> TidemarkError {
        TidemarkError(
            .epochMismatch, "The change set \(id) was made on rows of another history.",
            fix: "The device takes its rows from a new snapshot and compares the change set with them.")
    }
}
