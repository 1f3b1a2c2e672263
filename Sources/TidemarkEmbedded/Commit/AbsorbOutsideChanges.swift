import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Logs the changes of other programs, such as the sqlite3 shell, as a revision without an author.
///
/// The capture triggers recorded the changes; the store coalesces and logs them like a change set. The file does not
/// tell where the programs' transactions ended. So all captured changes become one revision, which is still atomic.
extension ZoneTransaction {
    package func absorbOutsideChanges() throws {
        let captured = CapturedEffects(db, schema: schema)
        let head = try head()
        var effects = RevisionEffects(revision: head.state.revision + 1, schema)
        let hasCaptured = try captured.read { effect in
            let isCascade = effect.after == nil && !schema.tables[effect.table].references.isEmpty
            if isCascade, planted(PlantedBug.leavesCascadesOutOfLog) { return }
            try refuseUnusableKey(effect)
            effects.take(effect)
        }
        guard hasCaptured else { return }
        defer { books.head?.hasOutsideChanges = false }
        guard !effects.entries.isEmpty else { return try captured.delete() }
        try refuseBrokenReferences(effects.entries)
        try keep(effects.outsideCommit(after: head, at: now))
        try captured.delete()
    }

    /// Refuses a key that no device can use: a temporary id, or NULL, which SQLite allows in most primary keys.
    private func refuseUnusableKey(_ effect: Effect) throws {
        guard effect.after != nil else { return }
        let table = schema.tables[effect.table]
        let isUsable =
            table.keyKind == .integer
            ? Int64(effect.key).map { (table.lowestID...TemporaryID.permanentMax).contains($0) } ?? false
            : !Value.parts(ofKey: effect.key).contains(.null)
        guard !isUsable else { return }
        throw TidemarkError(
            .unavailable,
            "A row written into the zone's file has a key that is NULL, stands for a temporary id or is above 2^52 - 1.",
            fix: "Give it another key in the file, or delete it.", place: .init(table: table.name, key: effect.key))
    }

    /// Refuses broken references, which a program with `foreign_keys` off can leave behind.
    ///
    /// No device may receive one, so the zone refuses requests until the operator repairs the rows; no change is lost.
    private func refuseBrokenReferences(_ entries: [CommittedRevision.Entry]) throws {
        var tables: [TidemarkCore.Operation: Set<String>] = [:]
        var keys: [String: [String]] = [:]
        for entry in entries {
            let table = schema.tables[entry.name.table].name
            tables[entry.operation, default: []].insert(table)
            if entry.operation != .delete { keys[table, default: []].append(entry.name.key) }
        }
        let tablesWithWrites = tables[.create, default: []].union(tables[.update, default: []])
        let check = ForeignKeyCheck(db, schema: schema)
        for table in schema.tables where !table.references.isEmpty {
            // If a parent disappeared, any child may be broken; otherwise only a changed row can be.
            let hasLostParents = table.references.contains { reference in
                tables[.delete, default: []].contains(reference.parent)
                    || tables[.update, default: []].contains(reference.parent)
                        && schema.byName[reference.parent]?.key != reference.parentColumns
            }
            guard hasLostParents || tablesWithWrites.contains(table.name) else { continue }
            let broken =
                hasLostParents
                ? try check.brokenReferences(in: table, limit: 1)
                : try check.brokenReferences(in: table, keys: keys[table.name, default: []], limit: 1)
            guard let broken = broken.first else { continue }
            throw TidemarkError(
                .unavailable,
                """
                A row written into the zone's file refers to \(broken.parent) \(broken.parentKey), which does not \
                exist.
                """,
                fix:
                    """
                    Mend it in the file: insert the parent, or update or delete the child; PRAGMA foreign_key_check \
                    lists all.
                    """,
                place: .init(table: broken.table, key: broken.key, column: broken.column))
        }
    }
}
