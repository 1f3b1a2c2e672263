import GRDB
import TidemarkCore
import TidemarkSQL

/// The operator's declarations about triggers, collations and other parts of the program's own; the zone keeps them.
public struct ObjectDeclarations: Hashable, Sendable {
    /// Whether a trigger runs where the program writes (true) or at the server, by its name.
    public var triggers: [String: Bool]
    /// The built-in collation that stands for one of the program's own, by its name: BINARY, NOCASE or RTRIM.
    public var collations: [String: String]
    /// The tables in which the program's framework notes its migrations, besides those of known frameworks.
    public var migrationTables: Set<String>

    /// Creates declarations.
    public init(
        triggers: [String: Bool] = [:], collations: [String: String] = [:], migrationTables: Set<String> = []
    ) {
        self.triggers = triggers
        self.collations = collations
        self.migrationTables = migrationTables
    }

    /// Stores the declared tables of migrations, before the first look at the tables.
    func storeMigrationTables(in db: Database) throws {
        guard !migrationTables.isEmpty else { return }
        try db.execute(sql: MigrationTables.tableSQL)
        for name in migrationTables.sorted() {
            try db.execute(sql: "INSERT OR IGNORE INTO tidemark_migration_table VALUES (?)", arguments: [name])
        }
    }

    /// Adds all declared collations to a connection, and returns them.
    func collations(in db: Database) throws -> [String: String] {
        if let other = collations.first(where: { StandInCollation(rawValue: $0.value) == nil }) {
            throw TidemarkError(
                .invalidArgument, "\(other.value) is no collation that every SQLite has.",
                fix: "Write \(other.key)=BINARY, \(other.key)=NOCASE or \(other.key)=RTRIM.")
        }
        let stored = ProgramFunctions.addStandIns(declaredIn: db)
        ProgramFunctions.addCollations(collations, to: db)
        return stored.merging(collations) { $1 }
    }

    /// Stores the declared collations, and checks the indexes under them.
    func storeCollations(in db: Database) throws {
        for (name, standIn) in collations.sorted(by: { $0.key < $1.key }) {
            try db.execute(sql: "INSERT OR REPLACE INTO tidemark_collation VALUES (?, ?)", arguments: [name, standIn])
        }
        guard !collations.isEmpty, try String.fetchOne(db, sql: "PRAGMA main.integrity_check(1)") != "ok" else {
            return
        }
        let list = collations.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: ", ")
        throw TidemarkError(
            .unusableFile, "An index of the file is not in the order of \(list).",
            fix: "Declare a collation that orders its values in the same way, or leave the table local with --exclude.")
    }
}
