import GRDB
import TidemarkCore

/// Adds tables and columns of the main zone to the file of another zone.
///
/// The operator and the program alter the main zone's file only. The store follows the additions in the
/// other file as if another program had made them there, so devices receive them. Any other change of a
/// table is refused: the operator makes it in each zone's file.
struct GrowZone {
    let template: ZoneTemplate
    let zone: String

    /// Adds the missing objects, in the caller's transaction.
    ///
    /// - Throws: `unavailable` when a table differs by more than added columns.
    func run(in db: Database) throws {
        let present = try ZoneTemplate.objects(in: db)
        guard present != template.objects else { return }
        let byName = Dictionary(uniqueKeysWithValues: present.map { ($0.name, $0) })
        let names = Set(template.objects.map(\.name))
        // Triggers and views may name columns that come below.
        for object in present where object.type != "table" && byName[object.name] != nil {
            guard !template.objects.contains(object), object.type == "trigger" || object.type == "view" else {
                continue
            }
            try db.execute(sql: "DROP \(object.type.uppercased()) \(Self.quoted(object.name))")
        }
        for object in template.objects {
            guard let current = byName[object.name] else {
                try db.execute(sql: object.sql)
                continue
            }
            guard current.sql != object.sql else { continue }
            switch object.type {
            case "table": try addColumns(to: current, as: object, in: db)
            case "index":
                try db.execute(sql: "DROP INDEX \(Self.quoted(object.name))")
                try db.execute(sql: object.sql)
            default: try db.execute(sql: object.sql)
            }
        }
        for object in present where object.type == "index" && !names.contains(object.name) {
            try db.execute(sql: "DROP INDEX IF EXISTS \(Self.quoted(object.name))")
        }
    }

    private func addColumns(to current: ZoneTemplate.Object, as object: ZoneTemplate.Object, in db: Database) throws {
        guard let definitions = Self.addedColumns(from: current.sql, to: object.sql) else {
            throw TidemarkError(
                .unavailable,
                "Table \(object.name) of zone \(zone) differs from the main zone's by more than added columns.",
                fix: "Make the change of the main zone's table in the file of zone \(zone), too.",
                place: .init(table: object.name)
            )
        }
        for definition in definitions {
            try db.execute(sql: "ALTER TABLE \(Self.quoted(object.name)) ADD COLUMN \(definition)")
        }
    }

    private static func quoted(_ name: String) -> String { "\"\(name.replacing("\"", with: "\"\""))\"" }

    /// Returns the definitions of the columns that `ALTER TABLE ADD COLUMN` appended to a statement.
    ///
    /// SQLite writes them before the last parenthesis, separated by commas, and keeps the rest of the text.
    ///
    /// - Returns: Nil when the statements differ otherwise.
    static func addedColumns(from old: String, to new: String) -> [String]? {
        guard let close = old.lastIndex(of: ")") else { return nil }
        let head = old[..<close]
        let tail = old[close...]
        guard new.hasPrefix(head), new.hasSuffix(tail), new.utf8.count > old.utf8.count else { return nil }
        let added = new.dropFirst(head.count).dropLast(tail.count)
        let definitions = split(added).map { $0.trimmingPrefix { $0.isWhitespace } }
        // The text begins with the comma after the last old column.
        guard definitions.first?.isEmpty == true, definitions.count > 1 else { return nil }
        return definitions.dropFirst().map(String.init)
    }

    /// Splits a list at the commas outside parentheses and quotes.
    private static func split(_ text: Substring) -> [Substring] {
        var parts: [Substring] = []
        var start = text.startIndex
        var depth = 0
        var quote: Character?
        for index in text.indices {
            let character = text[index]
            if let open = quote {
                if character == open { quote = nil }
                continue
            }
            switch character {
            case "'", "\"", "`": quote = character
            case "[": quote = "]"
            case "(": depth += 1
            case ")": depth -= 1
            case "," where depth == 0:
                parts.append(text[start..<index])
                start = text.index(after: index)
            default: break
            }
        }
        return parts + [text[start...]]
    }
}
