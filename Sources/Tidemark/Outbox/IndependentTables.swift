import Foundation
import GRDB

/// The tables in which other programs' edits are independent: a refused one does not block the others.
///
/// The engine cannot see where transactions of other programs end, so all their writes since the last poll become one
/// change set. In independent tables, it divides that change set: a record stays with those that it refers to and those
/// that exchange a unique value with it. The engine never divides transactions of the app's own database connection.
public struct IndependentTables: Hashable, Sendable, ExpressibleByArrayLiteral {
    private let names: Set<String>
    private static let every = "*"
    /// All tables.
    public static let all = IndependentTables(names: [every])
    /// No table.
    public static let none = IndependentTables(names: [])

    /// Some tables by name; edits in other tables stay in one change set, with all records connected to them.
    public init(_ names: some Sequence<String>) { self.init(names: Set(names)) }

    /// Some tables, by their names.
    public init(arrayLiteral names: String...) { self.init(names: Set(names)) }

    private init(names: Set<String>) { self.names = names }

    init(declaredIn db: Database) throws {
        names = try String.fetchSet(db, cached: "SELECT tbl FROM tidemark_independent")
    }

    func declare(in db: Database) throws {
        try db.execute(sql: "DELETE FROM tidemark_independent")
        for name in names.sorted() {
            try db.execute(sql: "INSERT INTO tidemark_independent VALUES (?)", arguments: [name])
        }
    }

    var isNone: Bool { names.isEmpty }

    /// Returns whether a table is declared, ignoring case as SQLite does.
    func contains(_ table: String) -> Bool {
        names.contains(Self.every) || names.contains { $0.caseInsensitiveCompare(table) == .orderedSame }
    }
}
