import GRDB
import TidemarkCore
import TidemarkSQL

/// Adds to a zone's file what the operator's schema has more: tables, columns, indexes, views and triggers.
///
/// It renames a column as well, if the operator declares that. Every other difference is left alone, because only the
/// operator knows what becomes of the rows, and is named.
struct GrowFile {
    /// The objects that the file has gained, such as `table medal`.
    private(set) var additions: [String] = []
    /// What the schema has and the file did not get, each with the reason.
    private(set) var ignored: [String] = []

    private let db: Database
    /// The columns of the operator's schema, by table.
    private var columns: [String: [ZoneTemplate.Column]] = [:]
    private let renames: [ColumnRename]

    /// Grows the file by the operator's schema, in the caller's transaction; throws `DatabaseError` if it is faulty.
    init(_ db: Database, by sql: String, renames: [ColumnRename]) throws {
        self.db = db
        self.renames = renames
        let scratch = try DatabaseQueue()
        try scratch.writeWithoutTransaction { schema in
            try schema.execute(sql: sql)
            let wanted = try ZoneTemplate.objects(in: schema)
            let present = try ZoneTemplate.objects(in: db)
            for table in wanted where table.type == "table" {
                columns[table.name] = try ZoneTemplate.columns(of: table.name, in: schema)
            }
            var newTables: [String] = []
            for object in wanted {
                if let current = present.first(where: { $0.name == object.name }) {
                    guard !current.isSame(as: object) else { continue }
                    if object.type == "table" { try grow(current, to: object) } else { ignore(object) }
                } else {
                    try db.execute(sql: object.sql)
                    additions.append("\(object.type) \(object.name)")
                    if object.type == "table" { newTables.append(object.name) }
                }
            }
            for table in newTables where try !isVirtual(table) { try copyRows(of: table, from: schema) }
        }
    }

    private mutating func ignore(_ object: ZoneTemplate.Object) {
        ignored.append("\(object.type) \(object.name): the file has another one; drop it there, and start again")
    }

    private mutating func grow(_ current: ZoneTemplate.Object, to wanted: ZoneTemplate.Object) throws {
        var here = StatementTokens(current.sql).parts
        let there = StatementTokens(wanted.sql).parts
        for rename in renames where rename.table == wanted.name {
            guard here.contains(where: { $0.name == rename.old }), !here.contains(where: { $0.name == rename.new }),
                there.contains(where: { $0.name == rename.new })
            else { continue }
            try wanted.renameColumn(rename.old, to: rename.new, in: db)
            additions.append("column \(wanted.name).\(rename.new) out of \(rename.old)")
            here = try parts(of: wanted.name)
        }
        let missing = there.filter { part in part.isColumn && !here.contains { $0.name == part.name } }
        for part in missing { try add(part, to: wanted.name, having: here, wanting: there) }
        here = try parts(of: wanted.name)
        for part in there where !here.contains(part) && !missing.contains(part) {
            let other = part.isColumn ? here.first { $0.name == part.name } : nil
            ignored.append(
                "\(wanted.name): \(part.text)" + (other.map { "; the file has \($0.text)" } ?? "; the file lacks it"))
        }
        let tail = StatementTokens(wanted.sql).tail
        if StatementTokens(current.sql).tail != tail { ignored.append("\(wanted.name): \(tail) at its end") }
    }

    private mutating func add(
        _ part: StatementTokens.Part, to table: String, having here: [StatementTokens.Part],
        wanting there: [StatementTokens.Part]
    ) throws {
        let column = "\(table).\(part.name)"
        let former = try (ServedColumns.renames(in: db) + renames).first { rename in
            rename.table == table && rename.old == part.name && here.contains { $0.name == rename.new }
        }
        let gone = here.first { other in
            other.isColumn && other.rest == part.rest && !there.contains { $0.name == other.name }
        }
        if let former {
            ignored.append("\(column): the schema still has the former name of \(table).\(former.new); change it there")
        } else if let gone {
            ignored.append(
                "\(column): it may be \(table).\(gone.name) of the file; if so, add "
                    + "--rename \(table).\(gone.name)=\(column), and if not, add the column in the file")
        } else {
            try addColumn(part, to: table)
        }
    }

    private mutating func addColumn(_ part: StatementTokens.Part, to table: String) throws {
        let column = "\(table).\(part.name)"
        let wanted = columns[table]?.first { $0.name == part.name }
        if wanted?.needsValue == true {
            ignored.append("\(column) is NOT NULL without a default; give it one")
            return
        }
        let statement = "ALTER TABLE \(SQLText.name(table)) ADD COLUMN \(part.text)"
        var refusal = try refusalWithRows(of: statement, in: table)
        // The value of a generated column follows from those of the row, which this one does not have.
        if wanted?.isGenerated == true, refusal?.hasSuffix("constraint failed") == true { refusal = nil }
        if let reason = try refusal ?? Self.refusal(of: statement, in: db) {
            ignored.append("\(column): SQLite cannot add it to a table with rows: \(reason)")
        } else {
            additions.append("column \(column)")
        }
    }

    /// Returns why a table with a row cannot get the column; nil if it can.
    ///
    /// The main zone's table may be empty where those of other zones have rows. SQLite then adds a column here that it
    /// adds to none of them, so a table with the names of the columns and one row is tried in its place.
    private func refusalWithRows(of statement: String, in table: String) throws -> String? {
        let names = SQLText.names(try ZoneTemplate.columns(of: table, in: db).map(\.name))
        let scratch = try DatabaseQueue()
        return try scratch.writeWithoutTransaction { tried in
            let name = SQLText.name(table)
            try tried.execute(
                sql: "PRAGMA foreign_keys = ON; CREATE TABLE \(name) (\(names)); INSERT INTO \(name) DEFAULT VALUES")
            return try Self.refusal(of: statement, in: tried)
        }
    }

    /// Executes a statement; returns why SQLite refuses it, and then leaves all as it was.
    private static func refusal(of statement: String, in db: Database) throws -> String? {
        var reason: String?
        try db.inSavepoint {
            do {
                try db.execute(sql: statement)
                return .commit
            } catch let error as DatabaseError
                where [.SQLITE_ERROR, .SQLITE_CONSTRAINT].contains(error.resultCode)
            {
                reason = error.message ?? "SQLite gives no reason"
                return .rollback
            }
        }
        return reason
    }

    private func parts(of table: String) throws -> [StatementTokens.Part] {
        let sql = try String.fetchOne(
            db, sql: "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?", arguments: [table])
        return StatementTokens(sql ?? "").parts
    }

    private func isVirtual(_ table: String) throws -> Bool { try SchemaIntrospection(db).skippedTables.contains(table) }

    private func copyRows(of table: String, from schema: Database) throws {
        let name = SQLText.name(table)
        let columns = try ZoneTemplate.columns(of: table, in: schema).filter { !$0.isGenerated }.map(\.name)
        let marks = Array(repeating: "?", count: columns.count).joined(separator: ", ")
        let insert = "INSERT INTO main.\(name) (\(SQLText.names(columns))) VALUES (\(marks))"
        let rows = try Row.fetchCursor(schema, sql: "SELECT \(SQLText.names(columns)) FROM \(name)")
        while let row = try rows.next() {
            try db.execute(sql: insert, arguments: StatementArguments(Array(row.databaseValues)))
        }
    }
}
