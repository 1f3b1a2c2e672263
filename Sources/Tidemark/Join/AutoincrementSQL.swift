import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Gives an integer-keyed table AUTOINCREMENT, so that a plain `INSERT` on a device draws a
/// temporary id.
///
/// The statement is changed as text and then read back by SQLite: only when the result is the same
/// table apart from AUTOINCREMENT is it used. Otherwise the table stays as it is, and its guard
/// explains what to write.
enum AutoincrementSQL {
    /// The statement to use on a device.
    static func rewritten(_ table: SyncedTable) throws -> String {
        guard table.keyKind == .integer, !table.isAutoincrement else { return table.sql }
        for candidate in candidates(table) { if try isSameTable(candidate, as: table) { return candidate } }
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
            // A key's name that makes no pattern: the table keeps its statement.
            return nil
        }
    }

    private static func isSameTable(_ sql: String, as table: SyncedTable) throws -> Bool {
        let scratch = try DatabaseQueue()
        return try scratch.write { db in
            do {
                try db.execute(sql: sql)
                // Unique indexes that are not part of the statement are compared, too.
                for index in table.indexSQL { try db.execute(sql: index) }
            } catch is DatabaseError {
                // SQLite does not accept the changed text, so it is not used.
                return false
            }
            guard let made = try SchemaIntrospection(db).tables.first else { return false }
            return made.isAutoincrement && made.name == table.name && made.columns == table.columns
                && made.key == table.key && made.keyKind == table.keyKind && made.uniques == table.uniques
                && made.references.count == table.references.count
        }
    }
}
