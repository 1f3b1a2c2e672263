import Foundation
import TidemarkCore

/// The SQL text of one table's capture triggers, a pure function of the table.
struct CaptureTriggers {
    struct Trigger {
        let name: String
        let sql: String
    }

    /// A unique index; `REPLACE` evicts rows that collide in it.
    struct UniqueIndex {
        let columns: [(name: String, collation: String)]
        /// Whether the index is partial, so that an update of any column can add a row to it.
        let isPartial: Bool
    }

    let table: SyncedTable
    /// The unique indexes except the key's.
    let uniqueIndexes: [UniqueIndex]
    /// The key's columns with their collations.
    let key: UniqueIndex
    let guardsNewIds: Bool

    /// All triggers in the order of creation.
    var all: [Trigger] {
        var triggers = [
            trigger(
                "before_insert", "BEFORE INSERT", when: "EXISTS (SELECT 1 \(evictable(changed: false)))",
                body: rememberEvictable(changed: false)),
            trigger(
                "before_update", "BEFORE UPDATE",
                when: "(\(keyOrUniqueChanges)) AND EXISTS (SELECT 1 \(evictable(changed: true)))",
                body: rememberEvictable(changed: true)),
            trigger("after_insert", "AFTER INSERT", body: keyGuard + capture("insert")),
            trigger("after_update", "AFTER UPDATE", body: capture("update")),
            trigger("after_delete", "AFTER DELETE", body: capture("delete")),
        ]
        if !planted(PlantedBug.missesEvictedRows) {
            triggers += [
                trigger("evicted_insert", "AFTER INSERT", when: hasNotes, body: captureEvicted()),
                trigger(
                    "evicted_update", "AFTER UPDATE", when: hasNotes,
                    body: captureEvicted { matchesNote(key, alias: "\($0).", row: "OLD") } + updateNote),
                trigger(
                    "evicted_delete", "AFTER DELETE", when: hasNotes,
                    body: "DELETE FROM \(evicted) WHERE \(matchesNote(key, alias: "", row: "OLD"));\n"),
            ]
        }
        if !keyGuard.isEmpty {
            let changes = table.key.map(SQLText.name).map { "NEW.\($0) IS NOT OLD.\($0)" }
            triggers.append(
                trigger("guard_key", "AFTER UPDATE", when: changes.joined(separator: " OR "), body: keyGuard))
        }
        if isNoted { triggers.append(noteNamedID) }
        return triggers
    }

    private var name: String { SQLText.name(table.name) }
    private var shadow: String { SQLText.name(CaptureTables.shadow(table)) }
    private var shadowColumns: String { SQLText.names(["seq", "kind"] + CaptureTables.shadowColumns(table)) }
    private var evicted: String { SQLText.name(CaptureTables.evicted(table)) }
    private var columns: [String] { table.columns.map { SQLText.name($0.name) } }
    private var id: String { SQLText.name(table.key[0]) }

    private func trigger(_ label: String, _ event: String, when: String? = nil, body: String) -> Trigger {
        let name = "tidemark_\(label)_\(table.name)"
        let condition = when.map { " AND (\($0))" } ?? ""
        return Trigger(
            name: name,
            sql: """
                CREATE TRIGGER \(SQLText.name(name)) \(event) ON \(self.name)
                WHEN (SELECT applying FROM tidemark_state) <> 1\(condition)
                BEGIN
                \(body)END
                """)
    }

    // MARK: Captured changes

    /// Assigns a sequence number and stores the old row, the new row, or both.
    private func capture(_ kind: String) -> String {
        let none = Array(repeating: "NULL", count: columns.count)
        let old = kind == "insert" ? none : columns.map { "OLD.\($0)" }
        let new = kind == "delete" ? none : columns.map { "NEW.\($0)" }
        return """
            INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), revision FROM tidemark_state;
            INSERT INTO \(shadow) (\(shadowColumns)) \
            VALUES (last_insert_rowid(), '\(kind)', \((old + new).joined(separator: ", ")));

            """
    }

    // MARK: Rows that REPLACE evicts

    // Before a write, a trigger copies the rows that the write may evict: these copies are notes.
    // After the write, a trigger captures the rows that are gone. In between, other writes to the
    // table may run completely: foreign key actions of evicted rows, and the app's triggers. And the
    // second trigger may not run: SQLite can ignore the write, or an eviction can delete its row.
    //
    // So no trigger needs to know which notes are its own. A note always equals its row: triggers update it with the
    // row and delete it with the row. If a note's row is gone, the row was evicted, and any trigger may capture that. A
    // leftover note does no harm; `CaptureTables` deletes it while no statement runs.

    /// Copies the rows whose key or unique values equal the new row's.
    private func rememberEvictable(changed: Bool) -> String {
        """
        INSERT INTO \(evicted) (\(noteColumns)) SELECT \(columnsToNote(of: "e"))
            \(evictable(changed: changed))
            AND NOT EXISTS (SELECT 1 FROM \(evicted) AS n WHERE \(matchesNote(key, alias: "n.", row: "e")));

        """
    }

    /// The end of a query for rows whose key or unique values equal the new row's, and the condition of a trigger.
    private func evictable(changed: Bool) -> String {
        let matches = ([key] + uniqueIndexes).map(collides)
        let other = changed ? " AND NOT \(match(table.key, left: "e", right: "OLD"))" : ""
        return "FROM \(name) AS e WHERE (\(matches.joined(separator: " OR ")))\(other)"
    }

    private var noteColumns: String { SQLText.names(noteNames.map { "old_" + $0 }) }

    private func columnsToNote(of row: String) -> String {
        noteNames.map { "\(row).\(SQLText.name($0))" }.joined(separator: ", ")
    }

    /// The columns of a note: the synced columns, and unique generated ones.
    var noteNames: [String] {
        let names = table.columns.map(\.name)
        let others = uniqueIndexes.flatMap { $0.columns.map(\.name) }.filter { !names.contains($0) }
        return names + Set(others).sorted()
    }

    /// The columns of the indexes for looking up notes.
    var noteIndexes: [[(name: String, collation: String)]] {
        ([key] + uniqueIndexes).map { $0.columns.map { ("old_" + $0.name, $0.collation) } }
    }

    /// Returns the condition that a row `e` collides with the new row in a unique index.
    private func collides(_ index: UniqueIndex) -> String {
        let pairs = index.columns.map {
            "e.\(SQLText.name($0.name)) = NEW.\(SQLText.name($0.name)) COLLATE \(SQLText.name($0.collation))"
        }
        return "(\(pairs.joined(separator: " AND ")))"
    }

    /// Returns the condition that a note collides with a row; `+` removes the row's type, so that the index fits.
    private func matchesNote(_ index: UniqueIndex, alias: String = "e.", row: String = "NEW") -> String {
        let pairs = index.columns.map { column in
            let noteColumn = "\(alias)\(SQLText.name("old_" + column.name))"
            return "\(noteColumn) = +\(row).\(SQLText.name(column.name)) COLLATE \(SQLText.name(column.collation))"
        }
        return "(\(pairs.joined(separator: " AND ")))"
    }

    private var hasNotes: String { "EXISTS (SELECT 1 FROM \(evicted))" }

    /// Captures the rows that the new row evicted as deleted.
    ///
    /// These are notes that collide with the new row, and whose row is gone or has the new row's key. Separate triggers
    /// run this, so that a write without evictions does not pay for it. They may fire before or after the row's own
    /// triggers. They use no window functions, because the file must stay readable for SQLite builds without them.
    private func captureEvicted(except ownNote: (_ note: String) -> String = { _ in "false" }) -> String {
        func condition(_ note: String) -> String {
            let collisions = ([key] + uniqueIndexes).map { matchesNote($0, alias: "\(note).") }
            return "(\(collisions.joined(separator: " OR "))) AND NOT \(ownNote(note)) "
                + "AND (\(isGone(note)) OR \(matchesNote(key, alias: "\(note).")))"
        }
        let later = "SELECT count(*) FROM \(evicted) AS n WHERE n.row > e.row AND \(condition("n"))"
        return captureNotes(where: condition("e"), countLater: "(\(later))")
    }

    /// Captures all notes whose row is gone as deleted, in linear time: no file stores its window functions.
    var captureAllEvicted: String {
        captureNotes(where: isGone("e"), countLater: "(count(*) OVER () - row_number() OVER ())")
    }

    private func isGone(_ note: String) -> String {
        "NOT EXISTS (SELECT 1 FROM \(name) AS t WHERE \(match(table.key, left: "t", right: note, rightSide: "old_")))"
    }

    /// Captures the notes `e` that meet a condition; `countLater` is the SQL of how many of them follow the note.
    private func captureNotes(where condition: String, countLater: String) -> String {
        let none = Array(repeating: "NULL", count: columns.count)
        let values = table.columns.map { "e.\(SQLText.name("old_" + $0.name))" } + none
        return """
            INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), s.revision
                FROM tidemark_state AS s, \(evicted) AS e WHERE \(condition);
            INSERT INTO \(shadow) (\(shadowColumns))
                SELECT (SELECT max(seq) FROM tidemark_capture) - \(countLater),
                    'delete', \(values.joined(separator: ", "))
                FROM \(evicted) AS e WHERE \(condition);
            DELETE FROM \(evicted) WHERE row IN (SELECT e.row FROM \(evicted) AS e WHERE \(condition));

            """
    }

    private var updateNote: String {
        let values = noteNames.map { "\(SQLText.name("old_" + $0)) = NEW.\(SQLText.name($0))" }
        return """
            UPDATE \(evicted) SET \(values.joined(separator: ", "))
                WHERE \(matchesNote(key, alias: "", row: "OLD"));

            """
    }

    /// The condition that an update can evict another row.
    private var keyOrUniqueChanges: String {
        guard !uniqueIndexes.contains(where: \.isPartial) else { return "1" }
        let names = uniqueIndexes.flatMap { $0.columns.map(\.name) }
        return Set(table.key + names).sorted().map {
            "NEW.\(SQLText.name($0)) IS NOT OLD.\(SQLText.name($0)) COLLATE BINARY"
        }.joined(separator: " OR ")
    }

    private func match(_ columns: [String], left: String, right: String, rightSide: String = "") -> String {
        let pairs = columns.map { "\(left).\(SQLText.name($0)) = \(right).\(SQLText.name(rightSide + $0))" }
        return "(\(pairs.joined(separator: " AND ")))"
    }

    // MARK: Ids that statements name

    /// Whether the file notes ids of the reserved region that statements name.
    private var isNoted: Bool { guardsNewIds && table.keyKind == .integer && !table.hasRowidKey }

    /// Notes an id of the reserved region that a statement names for a new row, in `tidemark_named`.
    ///
    /// After the insert nothing tells such an id from one that SQLite drew. Before it, SQLite shows the id -1 if the
    /// statement names none. An id that a row has already is not noted: the statement means that row.
    private var noteNamedID: Trigger {
        let name = "tidemark_named_insert_\(table.name)"
        let isKnown = "SELECT 1 FROM tidemark_named WHERE tbl = \(SQLText.literal(table.name)) AND id = NEW.\(id)"
        return Trigger(
            name: name,
            sql: """
                CREATE TRIGGER \(SQLText.name(name)) BEFORE INSERT ON \(self.name)
                WHEN NEW.\(id) >= \(TemporaryID.reservedMin) AND (SELECT applying FROM tidemark_state) <> 1
                    AND NOT EXISTS (SELECT 1 FROM \(self.name) AS e WHERE e.\(id) = NEW.\(id))
                BEGIN
                INSERT INTO tidemark_named (tbl, id, drawn)
                    SELECT \(SQLText.literal(table.name)), NEW.\(id), 0 WHERE NOT EXISTS (\(isKnown));
                END
                """)
    }

    // MARK: Keys that cannot be sent

    /// Rejects a key that the device cannot send.
    private var keyGuard: String {
        guard guardsNewIds else { return "" }
        guard table.keyKind == .integer else { return nullGuard }
        // SQLite counts rowids on; the drain replaces those of new rows by temporary ids.
        return table.hasRowidKey ? "" : idGuard
    }

    /// Rejects NULL in a key, which SQLite allows unless the key is declared NOT NULL.
    private var nullGuard: String {
        let nullable = table.columns.filter { table.key.contains($0.name) && !$0.isNotNull }
        guard !nullable.isEmpty else { return "" }
        let names = nullable.map(\.name).joined(separator: ", ")
        let message = "tidemark: a record of \(table.name) needs a key: give \(names) a value"
        let isNull = nullable.map { "NEW.\(SQLText.name($0.name)) IS NULL" }
        return """
            SELECT RAISE(ABORT, \(SQLText.literal(message))) WHERE \(isNull.joined(separator: " OR "));

            """
    }

    /// Rejects a new id that no server and no device can hold; a program may choose any other, as with text keys.
    private var idGuard: String {
        let message = """
            tidemark: \(table.key[0]) of a new record of \(table.name) lies outside -2^52 to 2^53: leave \
            \(table.key[0]) out, or write an id nearer to 0
            """
        return """
            SELECT RAISE(ABORT, \(SQLText.literal(message)))
            WHERE NEW.\(id) > \(TemporaryID.reservedMax) OR NEW.\(id) <= -\(TemporaryID.reservedMin);

            """
    }
}
