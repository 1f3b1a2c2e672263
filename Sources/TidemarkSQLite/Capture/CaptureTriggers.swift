import Foundation
import TidemarkCore

/// The SQL text of one table's capture triggers. A pure function of the table.
struct CaptureTriggers {
    /// A trigger's name and statement.
    struct Trigger {
        let name: String
        let sql: String
    }

    let table: SyncedTable
    let guardsNewIds: Bool

    /// All triggers, in the order in which they are made.
    var all: [Trigger] {
        var triggers = [
            trigger("before_insert", "BEFORE INSERT", body: rememberEvictable(changed: false)),
            trigger("before_update", "BEFORE UPDATE", when: keyOrUniqueChanges, body: rememberEvictable(changed: true)),
            trigger("after_insert", "AFTER INSERT", body: idGuard + captureEvicted + capture("insert")),
            trigger("after_update", "AFTER UPDATE", body: captureEvicted + capture("update")),
            trigger("after_delete", "AFTER DELETE", body: capture("delete")),
        ]
        if guardsNewIds, table.keyKind == .integer {
            triggers.append(
                trigger("guard_key", "AFTER UPDATE", when: "NEW.\(key) IS NOT OLD.\(key)", body: idGuard))
        }
        return triggers
    }

    private var name: String { SQLText.name(table.name) }
    private var shadow: String { SQLText.name(CaptureTables.shadow(table)) }
    private var shadowColumns: String {
        SQLText.names(["seq", "kind"] + CaptureTables.shadowColumns(table))
    }
    private var evicted: String { SQLText.name(CaptureTables.evicted(table)) }
    private var columns: [String] { table.columns.map { SQLText.name($0.name) } }
    private var key: String { SQLText.name(table.key[0]) }

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
                """)
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

    /// Notes the rows whose key or unique values the new row is about to take.
    private func rememberEvictable(changed: Bool) -> String {
        let matches = ([table.key] + table.uniques).map { match($0, "e", "NEW") }
        let other = changed ? " AND NOT \(match(table.key, "e", "OLD"))" : ""
        return """
            DELETE FROM \(evicted);
            INSERT INTO \(evicted) SELECT \(columns.map { "e.\($0)" }.joined(separator: ", "))
                FROM \(name) AS e WHERE (\(matches.joined(separator: " OR ")))\(other);

            """
    }

    /// Captures as deleted the noted rows that are gone, or whose key the new row has taken over.
    private var captureEvicted: String {
        let gone = """
            NOT EXISTS (SELECT 1 FROM \(name) AS t WHERE \(match(table.key, "t", "e")))
                    OR \(match(table.key, "e", "NEW"))
            """
        let none = Array(repeating: "NULL", count: columns.count)
        let values = columns.map { "e.\($0)" } + none
        return """
            INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), s.revision
                FROM tidemark_state AS s, \(evicted) AS e WHERE \(gone);
            INSERT INTO \(shadow) (\(shadowColumns))
                SELECT last_insert_rowid() - count(*) OVER () + row_number() OVER (), 'delete',
                    \(values.joined(separator: ", "))
                FROM \(evicted) AS e WHERE \(gone);
            DELETE FROM \(evicted);

            """
    }

    private var keyOrUniqueChanges: String {
        Set(table.key + table.uniques.flatMap { $0 }).sorted().map {
            "NEW.\(SQLText.name($0)) IS NOT OLD.\(SQLText.name($0))"
        }.joined(separator: " OR ")
    }

    private func match(_ columns: [String], _ left: String, _ right: String) -> String {
        "(" + columns.map { "\(left).\(SQLText.name($0)) = \(right).\(SQLText.name($0))" }
            .joined(separator: " AND ") + ")"
    }

    // MARK: New integer ids

    /// Refuses a new id that could later mean somebody else's record. A record that was there before, or whose
    /// deletion waits in the outbox, may come back under its id.
    private var idGuard: String {
        guard guardsNewIds, table.keyKind == .integer else { return "" }
        let shown = table.key[0].replacingOccurrences(of: "'", with: "''")
        let advice = table.isAutoincrement
            ? "leave \(shown) out, or write a negative one"
            : "write a negative \(shown), for instance (SELECT min(0, min(\(shown))) - 1 FROM \(table.name.replacingOccurrences(of: "'", with: "''")))"
        return """
            SELECT RAISE(ABORT, 'tidemark: a new record of \(table.name.replacingOccurrences(of: "'", with: "''")) gets its permanent \(shown) from the server: \(advice)')
            WHERE (NEW.\(key) BETWEEN 0 AND \(TemporaryID.permanentMax)
                    OR NEW.\(key) > \(TemporaryID.reservedMax) OR NEW.\(key) <= -\(TemporaryID.reservedMin))
                AND NOT EXISTS (SELECT 1 FROM \(evicted) AS e WHERE e.\(key) = NEW.\(key))
                AND NOT EXISTS (SELECT 1 FROM tidemark_base AS b
                    WHERE b.tbl = \(SQLText.literal(table.name)) AND b.key = CAST(NEW.\(key) AS TEXT))
                AND NOT EXISTS (SELECT 1 FROM \(shadow) AS c
                    WHERE c.\(SQLText.name("old_" + table.key[0])) = NEW.\(key) AND c.kind = 'delete');

            """
    }
}
