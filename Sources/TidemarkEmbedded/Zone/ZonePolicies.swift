import GRDB
import TidemarkCore
import TidemarkSQL

/// The conflict policies of a zone, in its file's table `tidemark_policy`.
enum ZonePolicies {
    /// Reads the policies by table, and by `table.column`; none in a file without bookkeeping.
    static func read(in db: Database) throws -> [String: ConflictPolicy] {
        guard try db.tableExists("tidemark_policy") else { return [:] }
        return try Row.fetchAll(db, sql: "SELECT name, policy FROM tidemark_policy").reduce(into: [:]) {
            policies,
            row in
            let name: String = try row.value("policy")
            guard let policy = ConflictPolicy(rawValue: name) else {
                throw TidemarkError(
                    .unusableFile, "The file has the policy \(name), which this version does not know.",
                    fix: "Serve it with the version that wrote it.")
            }
            policies[try row.value("name")] = policy
        }
    }

    /// Replaces the policies by a table made anew, whose `schema_version` tells another server on the file.
    static func write(_ policies: [String: ConflictPolicy], in db: Database) throws {
        try db.execute(sql: "DROP TABLE tidemark_policy; \(tableSQL)")
        for (name, policy) in policies.sorted(by: { $0.key < $1.key }) {
            try db.execute(sql: "INSERT INTO tidemark_policy VALUES (?, ?)", arguments: [name, policy.rawValue])
        }
    }

    /// Moves a column's policy to the column's new name.
    static func rename(_ old: String, to new: String, of table: String, in db: Database) throws {
        try db.execute(
            sql: "UPDATE OR REPLACE tidemark_policy SET name = ? WHERE name = ?",
            arguments: ["\(table).\(new)", "\(table).\(old)"])
    }

    static let tableSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_policy (
            name TEXT PRIMARY KEY, policy TEXT NOT NULL
        ) WITHOUT ROWID;
        """
}
