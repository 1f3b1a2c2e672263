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

    /// The change sets to send now, oldest first: at least one, then as many as the limits allow.
    ///
    /// With `freezesMore` false, only those that were frozen before.
    func outgoing(countMax: Int, freezesMore: Bool) throws -> Outgoing {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT seq, id, epoch, wire, time, (
                        SELECT sum(length(text)) FROM tidemark_wire_rest AS r WHERE r.seq = c.seq) AS rest
                    FROM tidemark_changeset AS c ORDER BY seq LIMIT ?
                    """
            ),
            arguments: [countMax]
        )
        var outgoing = Outgoing()
        for row in rows {
            guard outgoing.ids.isEmpty || outgoing.text.count < limits.outgoingBytesTarget
            else { break }
            let known = (row["wire"] as String?).map { Wire(beginning: $0, rest: row["rest"] ?? 0) }
            let (seq, id) = (row["seq"] as Int64, row["id"] as String)
            guard known != nil || freezesMore else { break }
            guard row["epoch"] as String? == epoch else { throw Self.otherHistory(id) }
            guard let wire = try known ?? freeze(seq, id, row["time"]) else {
                try forgetEmpty(seq, id)
                continue
            }
            if !outgoing.ids.isEmpty { outgoing.text.append(UInt8(ascii: ",")) }
            outgoing.text += wire.beginning.utf8
            if wire.rest > 0 {
                try WireText.appendRest(of: seq, wire.rest, to: &outgoing.text, in: db)
            }
            outgoing.ids.append(id)
            outgoing.hasFresh = outgoing.hasFresh || known == nil
        }
        return outgoing
    }

    /// A frozen text: what stands in the change set's row, and how much more there is of it.
    private struct Wire {
        var beginning = ""
        var rest = 0
    }

    /// A base is a revision of one history, and is never read in another.
    private static func otherHistory(_ id: String) -> TidemarkError {
        TidemarkError(
            .epochMismatch,
            "The change set \(id) was made on rows of another history.",
            fix: "The rows are taken anew from a snapshot, and the change set is judged by them."
        )
    }

    /// Removes a change set of which nothing travels: it changed only columns that the zone does
    /// not have, and these stay in the rows.
    private func forgetEmpty(_ seq: Int64, _ id: String) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT d.seq, a.id FROM tidemark_after AS d, tidemark_after AS a
                WHERE d.id = ?1 AND a.seq = ?2
                """,
            arguments: [id, seq]
        )
        try db.execute(sql: "DELETE FROM tidemark_after WHERE id = ?", arguments: [id])
        try Outbox.remove(id, in: db)
        try Outbox.forgetBases(in: db)
    }

    /// What is sent of a change set; nil when nothing of it travels.
    private func freeze(_ seq: Int64, _ id: String, _ time: Int64) throws -> Wire? {
        try UnservedValues(db: db, schema: schema).settle(seq)
        let after = try String.fetchAll(
            db.cachedStatement(sql: "SELECT id FROM tidemark_after WHERE seq = ? ORDER BY id"),
            arguments: [seq]
        )
        var envelope = ["\"id\":\"\(id)\""]
        if !after.isEmpty {
            envelope.append("\"after\":[\(after.map { "\"\($0)\"" }.joined(separator: ","))]")
        }
        envelope.append("\"time\":\(time)")
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM tidemark_outbox WHERE seq = ?"),
            arguments: [seq]
        )
        if planted(PlantedBug.movesBaseWhenSending) {
            try PendingChanges(db: db, schema: schema).refreshBase()
        }
        let tables = schema.tables + schema.difference.unknownTables
        if let gone = names.subtracting(tables.map(\.name)).sorted().first {
            throw TidemarkError(
                .serverBehind,
                "The zone has no table \(gone) any more, or not yet.",
                fix: "Retry the change when it has, or drop it: `tidemark device resolve`.",
                place: .init(id: id, table: gone)
            )
        }
        let sources = tables.filter { names.contains($0.name) }.map { source($0, seq) }
        var wire = Wire()
        let count = try ChangeSetJSON.render(envelope: envelope, sources, in: db) { number, piece in
            guard number > 0 else { return wire.beginning = piece }
            wire.rest += piece.utf8.count
            try WireText.keep(number, piece, of: seq, in: db)
        }
        guard count > 0 else { return nil }
        try WireText.keep(0, wire.beginning, of: seq, in: db)
        return wire
    }

    /// The records of one table, with temporary ids as they travel: negative.
    private func source(_ table: SyncedTable, _ seq: Int64) -> ChangeSetJSON.Source {
        let base =
            planted(PlantedBug.takesBaseWhenSending)
            ? "(SELECT revision FROM tidemark_state)" : "base"
        let references = Set(Catalog.integerReferences(of: table, in: schema).map(\.column))
        var attributes = "coalesce(attributes, '{}')"
        for column in references.sorted() where !table.key.contains(column) {
            let path = SQLText.literal("$.\"\(column)\"")
            attributes = negated(attributes, path: path, value: "(attributes ->> \(path))")
        }
        var key = "key"
        if table.keyKind == .integer {
            key =
                "CASE WHEN CAST(key AS INTEGER) >= \(TemporaryID.reservedMin) THEN '-' || key ELSE key END"
        } else if table.key.count > 1 {
            for (position, column) in table.key.enumerated() where references.contains(column) {
                let path = SQLText.literal("$[\(position)]")
                key = negated(key, path: path, value: "(key ->> \(path))")
            }
        } else if let column = table.key.first, references.contains(column) {
            key =
                "CASE WHEN CAST(key AS INTEGER) >= \(TemporaryID.reservedMin) THEN '-' || key ELSE key END"
        }
        attributes = served(attributes, of: table)
        return ChangeSetJSON.Source(
            table: table,
            sql: """
                SELECT key, operation, CASE operation
                    WHEN 'create' THEN substr(attributes, 2, length(attributes) - 2)
                    ELSE '"revision":' || \(base) || CASE coalesce(attributes, '{}') WHEN '{}' THEN ''
                        ELSE ',' || substr(attributes, 2, length(attributes) - 2) END END AS members
                FROM (SELECT \(key) AS key, operation, base, \(attributes) AS attributes
                    FROM tidemark_outbox WHERE seq = ?1 AND tbl = ?2)
                WHERE operation <> 'update' OR attributes <> '{}'
                """,
            arguments: [seq, table.name]
        )
    }

    /// The attributes that the zone has columns for, under the zone's names.
    private func served(_ attributes: String, of table: SyncedTable) -> String {
        let path = { (name: String) in SQLText.literal("$.\"\(name)\"") }
        let unserved = schema.difference.unservedColumns[table.name, default: []].map(\.name)
        var result = attributes
        if !unserved.isEmpty {
            result = "json_remove(\(result), \(unserved.map(path).joined(separator: ", ")))"
        }
        if planted(PlantedBug.erasesUnknownColumns),
            let erased = schema.difference.unknownColumns[table.name]?.first(where: {
                !$0.isNotNull
            })
        {
            result =
                "iif(operation = 'update', json_set(\(result), \(path(erased.name)), NULL), \(result))"
        }
        let names = schema.difference.wireNames[table.name, default: [:]]
        for (own, wire) in names.sorted(by: { $0.key < $1.key }) {
            result = """
                CASE WHEN json_type(attributes, \(path(own))) IS NULL THEN \(result) ELSE json_set(
                    json_remove(\(result), \(path(own))), \(path(wire)), json(\(result) -> \(path(own)))) END
                """
        }
        return result
    }

    private func negated(_ json: String, path: String, value: String) -> String {
        """
        CASE WHEN typeof\(value) = 'integer' AND \(value) >= \(TemporaryID.reservedMin)
            THEN json_set(\(json), \(path), -\(value)) ELSE \(json) END
        """
    }
}
