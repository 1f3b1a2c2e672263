import GRDB
import TidemarkCore
import TidemarkSQL

/// The operator's declarations about triggers and collations of the program's own, which the zone keeps.
public struct ObjectDeclarations: Hashable, Sendable {
    /// Whether a trigger runs where the program writes (true) or at the server, by its name.
    public var triggers: [String: Bool]
    /// The built-in collation that stands for one of the program's own, by its name: BINARY, NOCASE or RTRIM.
    public var collations: [String: String]

    /// Creates declarations.
    public init(triggers: [String: Bool] = [:], collations: [String: String] = [:]) {
        self.triggers = triggers
        self.collations = collations
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
