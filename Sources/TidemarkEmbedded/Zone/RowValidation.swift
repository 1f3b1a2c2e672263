import GRDB
import TidemarkCore
import TidemarkSQL

/// Checks that the rows of a file can be synced: usable keys and no broken references.
struct RowValidation {
    private let db: Database
    private let schema: SyncSchema

    init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    func problems() throws -> [SchemaProblem] {
        try schema.tables.flatMap { try keyProblems($0) }
            + ForeignKeyCheck(db, schema: schema).all().map { broken in
                SchemaProblem(
                    table: broken.table,
                    column: broken.column,
                    reason: "row \(broken.key) refers to \(broken.parent) \(broken.parentKey), which does not exist",
                    cure: """
                        PRAGMA foreign_key_check(\(SQLText.name(broken.table))); -- lists every such row
                        -- then insert the parent, or update or delete the child
                        """)
            }
    }

    private func keyProblems(_ table: SyncedTable) throws -> [SchemaProblem] {
        let name = SQLText.name(table.name)
        let keys = table.key.map { SQLText.name($0) }
        var problems: [SchemaProblem] = []
        let add = { (reason: String, cure: String) in
            problems.append(SchemaProblem(table: table.name, column: table.key[0], reason: reason, cure: cure))
        }
        let hasNull = keys.map { "\($0) IS NULL" }.joined(separator: " OR ")
        if try exists("SELECT 1 FROM \(name) WHERE \(hasNull)") {
            add("has rows whose key is NULL", "SELECT * FROM \(name) WHERE \(hasNull); -- then give these rows a key")
        }
        if table.keyKind == .text, try exists("SELECT 1 FROM \(name) WHERE typeof(\(keys[0])) = 'blob'") {
            add(
                "has blobs in a TEXT key",
                "UPDATE \(name) SET \(keys[0]) = hex(\(keys[0])) WHERE typeof(\(keys[0])) = 'blob';")
        }
        let list = keys.joined(separator: ", ")
        let repeated = "SELECT \(list), count(*) FROM \(name) GROUP BY \(list) HAVING count(*) > 1"
        if table.traits?.key != nil, table.keyKind != .integer, try exists(repeated) {
            let advice = "then change or delete all but one, or declare another key"
            add("has several rows with one key", "\(repeated); -- \(advice)")
        }
        let isReserved = "\(keys[0]) < \(TemporaryID.adoptedMin) OR \(keys[0]) > \(TemporaryID.permanentMax)"
        if table.keyKind == .integer, try exists("SELECT 1 FROM \(name) WHERE \(isReserved)") {
            add(
                "has ids below -2^51 or above 2^52 - 1, which stand for records not yet synced",
                "SELECT \(keys[0]) FROM \(name) WHERE \(isReserved); -- then give these rows other ids")
        }
        return problems
    }

    private func exists(_ sql: String) throws -> Bool { try Bool.fetchOne(db, sql: "SELECT EXISTS (\(sql))") ?? false }
}
