import Foundation
import GRDB

/// The tables in which edits that other programs made between two syncs are independent of each
/// other, so that one that is refused leaves the others alone.
///
/// Nobody knows where the transactions of other programs end, so all that they wrote since the last
/// look is one change set. Where it is declared that they write independent edits, it is divided
/// along references: a record goes with those that it refers to and those that exchange a unique
/// value with it, and never otherwise. Transactions of the app's own database are not divided.
public struct IndependentTables: Hashable, Sendable, ExpressibleByArrayLiteral {
    private let names: Set<String>
    private static let every = "*"

    /// All tables.
    public static let all = IndependentTables(names: [every])
    /// No table.
    public static let none = IndependentTables(names: [])

    /// Some tables, by their names.
    ///
    /// Edits in other tables stay together with whatever is connected to them.
    public init(_ names: some Sequence<String>) { self.init(names: Set(names)) }

    /// Some tables, by their names.
    public init(arrayLiteral names: String...) { self.init(names: Set(names)) }

    private init(names: Set<String>) { self.names = names }

    /// Reads what is declared for a file.
    init(declaredIn db: Database) throws {
        names = try String.fetchSet(db.cachedStatement(sql: "SELECT tbl FROM tidemark_independent"))
    }

    /// Declares it for a file, until something else is declared.
    func declare(in db: Database) throws {
        try db.execute(sql: "DELETE FROM tidemark_independent")
        for name in names.sorted() {
            try db.execute(sql: "INSERT INTO tidemark_independent VALUES (?)", arguments: [name])
        }
    }

    /// Whether no table is meant.
    var isNone: Bool { names.isEmpty }

    /// Whether a table is meant; names are compared as SQLite does.
    func contains(_ table: String) -> Bool {
        names.contains(Self.every) || names.contains { $0.caseInsensitiveCompare(table) == .orderedSame }
    }
}
