import Foundation
import GRDB
import TidemarkCore

/// Adds AUTOINCREMENT to an integer-keyed table, so that a plain `INSERT` on a device draws a temporary id.
///
/// It edits the statement's text and has SQLite read the result. If the new table differs in more than AUTOINCREMENT,
/// the device uses the original statement; the table's guard trigger then explains the missing keyword.
enum AutoincrementSQL {
    /// Returns the statement for a device; `objects` names the functions and collations that this process may lack.
    static func rewritten(_ table: SyncedTable, _ objects: FileObjects) throws -> String {
        guard table.keyKind == .integer, !table.isAutoincrement, !table.hasRowidKey else { return table.sql }
        for candidate in candidates(table) { if try isSameTable(candidate, as: table, objects) { return candidate } }
        return table.sql
    }

    private static func candidates(_ table: SyncedTable) -> [String] {
        let key = NSRegularExpression.escapedPattern(for: table.key[0])
        let patterns = [
            // id INTEGER PRIMARY KEY, also with ASC and ON CONFLICT
            #"(PRIMARY\s+KEY(?:\s+ASC)?(?:\s+ON\s+CONFLICT\s+\w+)?)(?!\s*\()"#: "$1 AUTOINCREMENT",
            // PRIMARY KEY (id)
            #"PRIMARY\s+KEY\s*\(\s*(["`\[]?\#(key)["`\]]?)\s*\)"#: "PRIMARY KEY ($1 AUTOINCREMENT)",
        ]
        return patterns.sorted { $0.key < $1.key }.compactMap { pattern, template in
            guard let expression = cached(pattern),
                let match = expression.firstMatch(in: table.sql, range: NSRange(table.sql.startIndex..., in: table.sql))
            else { return nil }
            return expression.stringByReplacingMatches(in: table.sql, range: match.range, withTemplate: template)
        }
    }

    private static func cached(_ pattern: String) -> NSRegularExpression? {
        do { return try NSRegularExpression(pattern: pattern, options: .caseInsensitive) } catch {
            // The key's name makes an invalid pattern, so the table keeps its statement.
            return nil
        }
    }

    private static func isSameTable(_ sql: String, as table: SyncedTable, _ objects: FileObjects) throws -> Bool {
        let scratch = try DatabaseQueue()
        return try scratch.write { db in
            ProgramFunctions.addStandIns(objects, to: db)
            do {
                try db.execute(sql: sql)
                // The comparison includes unique indexes outside the statement.
                for index in table.indexSQL { try db.execute(sql: index) }
            } catch is DatabaseError {
                // SQLite does not accept the changed text, so it is not used.
                return false
            }
            guard let result = try SchemaIntrospection(db).tables.first else { return false }
            return result.isAutoincrement && result.name == table.name && result.columns == table.columns
                && result.key == table.key && result.keyKind == table.keyKind && result.uniques == table.uniques
                && result.references.count == table.references.count
        }
    }
}
