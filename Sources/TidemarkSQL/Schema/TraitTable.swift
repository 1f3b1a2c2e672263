package import GRDB
import Foundation
package import TidemarkCore

/// The bookkeeping table of ``TidemarkCore/TableTraits``, in the file of a zone or a device.
package enum TraitTable {
    package static let name = "tidemark_trait"

    package static let sql = """
        CREATE TABLE IF NOT EXISTS \(name) (
            tbl TEXT PRIMARY KEY, key TEXT, lowest INTEGER, zero TEXT
        ) WITHOUT ROWID;
        """

    /// Reads the traits by table; none in a file without bookkeeping.
    package static func read(in db: Database) throws -> [String: TableTraits] {
        guard try db.tableExists("tidemark_trait") else { return [:] }
        let rows = try Row.fetchAll(db, sql: "SELECT tbl, key, lowest, zero FROM tidemark_trait")
        return try rows.reduce(into: [:]) {
            try $0[$1.value("tbl")] = TableTraits(
                key: names($1.value("key")), lowestID: $1.value("lowest"), zeroReferences: names($1.value("zero")))
        }
    }

    /// Stores the traits of tables, and deletes those of ordinary tables among them.
    package static func store(_ tables: [SyncedTable], in db: Database) throws {
        try store(Dictionary(uniqueKeysWithValues: tables.map { ($0.name, $0.traits ?? TableTraits()) }), in: db)
    }

    /// Stores traits by table; empty ones are deleted.
    package static func store(_ traits: [String: TableTraits], in db: Database) throws {
        let current = try read(in: db)
        let changes = traits.filter { ($0.value.isEmpty ? nil : $0.value) != current[$0.key] }
        guard !changes.isEmpty else { return }
        try db.execute(sql: sql)
        for (table, traits) in changes {
            try db.execute(sql: "DELETE FROM tidemark_trait WHERE tbl = ?", arguments: [table])
            guard !traits.isEmpty else { continue }
            try db.execute(
                sql: "INSERT INTO tidemark_trait (tbl, key, lowest, zero) VALUES (?, ?, ?, ?)",
                arguments: [table, text(traits.key), traits.lowestID, text(traits.zeroReferences)])
        }
    }

    private static func text(_ names: [String]?) -> String? {
        names.map { "[\($0.map(JSONText.quote).joined(separator: ","))]" }
    }

    /// Reads the column names of a key, a JSON array.
    package static func names(_ json: String?) throws -> [String]? {
        guard let json else { return nil }
        do { return try JSONDecoder().decode([String].self, from: Data(json.utf8)) } catch is DecodingError {
            throw TidemarkError.unreadable("The list of the tables' keys")
        }
    }
}
