import Foundation
import TidemarkCore

/// The SQL text of one table's capture triggers.
///
/// A pure function of the table.
struct CaptureTriggers {
    /// A trigger's name and statement.
    struct Trigger {
        let name: String
        let sql: String
    }

    /// What makes `REPLACE` evict a row.
    struct UniqueIndex {
        /// The columns, with the collations that the index compares them by.
        let columns: [(name: String, collation: String)]
        /// Whether an update of any column can bring a row into the index.
        let isPartial: Bool
    }

    let table: SyncedTable
    /// All but the one of the key.
    let uniqueIndexes: [UniqueIndex]
    /// How the key's columns are compared.
    let key: UniqueIndex
    let guardsNewIds: Bool

    /// All triggers, in the order in which they are made.
    var all: [Trigger] {
        var triggers = [
            trigger(
                "before_insert",
                "BEFORE INSERT",
                when: "EXISTS (SELECT 1 \(evictable(changed: false)))",
                body: rememberEvictable(changed: false)
            ),
            trigger(
                "before_update",
                "BEFORE UPDATE",
                when: "(\(keyOrUniqueChanges)) AND EXISTS (SELECT 1 \(evictable(changed: true)))",
                body: rememberEvictable(changed: true)
            ), trigger("after_insert", "AFTER INSERT", body: keyGuard + capture("insert")),
            trigger("after_update", "AFTER UPDATE", body: capture("update")),
            trigger("after_delete", "AFTER DELETE", body: capture("delete")),
        ]
        if !planted(PlantedBug.missesEvictedRows) {
            triggers += [
                trigger("evicted_insert", "AFTER INSERT", when: hasNoted, body: captureEvicted()),
                trigger(
                    "evicted_update",
                    "AFTER UPDATE",
                    when: hasNoted,
                    body: captureEvicted(except: noted(key, row: "OLD")) + followNoted
                ),
                trigger(
                    "evicted_delete",
                    "AFTER DELETE",
                    when: hasNoted,
                    body: "DELETE FROM \(evicted) WHERE \(noted(key, alias: "", row: "OLD"));\n"
                ),
            ]
        }
        if !keyGuard.isEmpty {
            let changes = table.key.map(SQLText.name).map { "NEW.\($0) IS NOT OLD.\($0)" }
            triggers.append(
                trigger("guard_key", "AFTER UPDATE", when: changes.joined(separator: " OR "), body: keyGuard)
            )
        }
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
                WHEN (SELECT applying FROM tidemark_state) = 0\(condition)
                BEGIN
                \(body)END
                """
        )
    }

    // MARK: One captured change

    /// Takes a number and writes down the old row, the new row, or both.
    private func capture(_ kind: String) -> String {
        let none = Array(repeating: "NULL", count: columns.count)
        let old = kind == "insert" ? none : columns.map { "OLD.\($0)" }
        let new = kind == "delete" ? none : columns.map { "NEW.\($0)" }
        return """
            INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), revision FROM tidemark_state;
            INSERT INTO \(shadow) (\(shadowColumns)) VALUES (last_insert_rowid(), '\(kind)', \((old + new).joined(separator: ", ")));

            """
    }

    // MARK: Rows that REPLACE evicts

    // A write notes the rows that it may evict before it does so, and captures those that are gone
    // afterwards. Between the two, other writes of the same table may run from beginning to end:
    // the foreign key actions of what it evicts, and triggers of the app's. And there may be no
    // afterwards: a write can be ignored, or its own row go with what it evicts.
    //
    // So no trigger has to know which notes are its own. A note always says what its row is: it
    // follows the row's captured updates and goes with its captured deletion. Then a noted row
    // that is gone was evicted, whoever finds that out, and a note that was left behind does no
    // harm. `CaptureTables` removes what is left when nothing runs.

    /// Notes the rows whose key or unique values the new row is about to take.
    private func rememberEvictable(changed: Bool) -> String {
        """
        INSERT INTO \(evicted) (\(notedColumns)) SELECT \(columnsToNote(of: "e"))
            \(evictable(changed: changed))
            AND NOT EXISTS (SELECT 1 FROM \(evicted) AS n WHERE \(noted(key, alias: "n.", row: "e")));

        """
    }

    /// The rows whose key or unique values the new row has, as the end of a query.
    ///
    /// It is a condition of the trigger as well: where there is none, as mostly, nothing is opened
    /// for writing.
    private func evictable(changed: Bool) -> String {
        let matches = ([key] + uniqueIndexes).map(meets)
        let other = changed ? " AND NOT \(match(table.key, "e", "OLD"))" : ""
        return "FROM \(name) AS e WHERE (\(matches.joined(separator: " OR ")))\(other)"
    }

    private var notedColumns: String { SQLText.names(noteNames.map { "old_" + $0 }) }

    private func columnsToNote(of row: String) -> String {
        noteNames.map { "\(row).\(SQLText.name($0))" }.joined(separator: ", ")
    }

    /// The columns of a row that are noted: those that travel, and generated ones that are unique.
    var noteNames: [String] {
        let names = table.columns.map(\.name)
        let others = uniqueIndexes.flatMap { $0.columns.map(\.name) }.filter { !names.contains($0) }
        return names + Set(others).sorted()
    }

    /// The indexes by which notes are found.
    var noteIndexes: [[(name: String, collation: String)]] {
        ([key] + uniqueIndexes).map { $0.columns.map { ("old_" + $0.name, $0.collation) } }
    }

    /// Whether a row `e` and the new row cannot both be in a unique index.
    private func meets(_ index: UniqueIndex) -> String {
        let pairs = index.columns.map {
            "e.\(SQLText.name($0.name)) = NEW.\(SQLText.name($0.name)) COLLATE \(SQLText.name($0.collation))"
        }
        return "(\(pairs.joined(separator: " AND ")))"
    }

    /// Whether a noted row and another one cannot both be in a unique index.
    ///
    /// Notes have no types; a `+` takes the other column's away, else no index would be used.
    private func noted(_ index: UniqueIndex, alias: String = "e.", row: String = "NEW") -> String {
        let pairs = index.columns.map {
            "\(alias)\(SQLText.name("old_" + $0.name)) = +\(row).\(SQLText.name($0.name)) COLLATE \(SQLText.name($0.collation))"
        }
        return "(\(pairs.joined(separator: " AND ")))"
    }

    /// Whether rows are noted.
    private var hasNoted: String { "EXISTS (SELECT 1 FROM \(evicted))" }

    /// Captures as deleted the noted rows that are gone, or whose key the new row has taken over,
    /// of those that cannot be there beside the new row.
    ///
    /// In triggers of its own, so that a write which evicts nothing does not pay for it. They may
    /// fire before or after those of the row itself.
    private func captureEvicted(except itself: String = "false") -> String {
        let own = ([key] + uniqueIndexes).map { noted($0) }.joined(separator: " OR ")
        return captureNoted(where: "(\(own)) AND NOT \(itself) AND (\(isGone) OR \(noted(key)))")
    }

    /// Captures as deleted all noted rows that are gone.
    var captureAllEvicted: String { captureNoted(where: isGone) }

    private var isGone: String {
        "NOT EXISTS (SELECT 1 FROM \(name) AS t WHERE \(match(table.key, "t", "e", rightSide: "old_")))"
    }

    private func captureNoted(where condition: String) -> String {
        let none = Array(repeating: "NULL", count: columns.count)
        let values = table.columns.map { "e.\(SQLText.name("old_" + $0.name))" } + none
        return """
            INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), s.revision
                FROM tidemark_state AS s, \(evicted) AS e WHERE \(condition);
            INSERT INTO \(shadow) (\(shadowColumns))
                SELECT (SELECT max(seq) FROM tidemark_capture) - count(*) OVER () + row_number() OVER (),
                    'delete', \(values.joined(separator: ", "))
                FROM \(evicted) AS e WHERE \(condition);
            DELETE FROM \(evicted) WHERE row IN (SELECT e.row FROM \(evicted) AS e WHERE \(condition));

            """
    }

    /// Has the note of a row follow its update.
    private var followNoted: String {
        let values = noteNames.map { "\(SQLText.name("old_" + $0)) = NEW.\(SQLText.name($0))" }
        return """
            UPDATE \(evicted) SET \(values.joined(separator: ", "))
                WHERE \(noted(key, alias: "", row: "OLD"));

            """
    }

    /// Whether an update can evict another row.
    private var keyOrUniqueChanges: String {
        guard !uniqueIndexes.contains(where: \.isPartial) else { return "1" }
        let names = uniqueIndexes.flatMap { $0.columns.map(\.name) }
        return Set(table.key + names).sorted().map {
            "NEW.\(SQLText.name($0)) IS NOT OLD.\(SQLText.name($0)) COLLATE BINARY"
        }.joined(separator: " OR ")
    }

    private func match(_ columns: [String], _ left: String, _ right: String, rightSide: String = "") -> String {
        let pairs = columns.map { "\(left).\(SQLText.name($0)) = \(right).\(SQLText.name(rightSide + $0))" }
        return "(\(pairs.joined(separator: " AND ")))"
    }

    // MARK: Keys that cannot travel

    /// Refuses a key under which no server could know the record.
    private var keyGuard: String {
        guard guardsNewIds else { return "" }
        return table.keyKind == .integer ? idGuard : nullGuard
    }

    /// SQLite allows NULL in a key that is not declared NOT NULL; such rows cannot be told apart.
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

    /// Refuses a new id that could later mean somebody else's record.
    ///
    /// A record that was there before, or whose deletion waits in the outbox, may come back under
    /// its id.
    private var idGuard: String {
        let shown = table.key[0]
        let advice =
            table.isAutoincrement
            ? "leave \(shown) out, or write a negative one"
            : "write a negative \(shown), for instance (SELECT min(0, coalesce(min(\(id)), 0)) - 1 FROM \(name))"
        let message = """
            tidemark: a new record of \(table.name) gets its permanent \(shown) from the server: \(advice)
            """
        return """
            SELECT RAISE(ABORT, \(SQLText.literal(message)))
            WHERE (NEW.\(id) BETWEEN 0 AND \(TemporaryID.permanentMax)
                    OR NEW.\(id) > \(TemporaryID.reservedMax) OR NEW.\(id) <= -\(TemporaryID.reservedMin))
                AND NOT EXISTS (SELECT 1 FROM \(evicted) AS e
                    WHERE e.\(SQLText.name("old_" + table.key[0])) = NEW.\(id))
                AND NOT EXISTS (SELECT 1 FROM tidemark_base AS b
                    WHERE b.tbl = \(SQLText.literal(table.name)) AND b.key = CAST(NEW.\(id) AS TEXT))
                AND NOT EXISTS (SELECT 1 FROM \(shadow) AS c
                    WHERE c.\(SQLText.name("old_" + table.key[0])) = NEW.\(id) AND c.kind = 'delete');

            """
    }
}
