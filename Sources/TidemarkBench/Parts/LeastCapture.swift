import GRDB

/// The least triggers that capture in SQL: one insertion for each kind of change, without any
/// safety.
enum LeastCapture: String, CaseIterable, Sendable {
    /// Table and key of a changed row, without its values.
    case key = "least trigger, keys"
    /// The row before and after, as in Tidemark's capture.
    case rows = "least trigger, rows"

    /// The table into which the triggers write.
    static let table = "log"

    /// Adds the triggers to a file that no process has open.
    func add(to path: String) throws {
        let file = try DatabaseQueue(path: path)
        try file.write { db in
            let names = try db.columns(in: "item").map(\.name)
            let columns = self == .key ? ["id"] : names
            try db.execute(sql: "CREATE TABLE \(Self.table) (\(Self.columns(for: columns)))")
            for (operation, sides) in [("INSERT", ["new"]), ("UPDATE", ["old", "new"]), ("DELETE", ["old"])] {
                let capturedSides = self == .key ? Array(sides.suffix(1)) : sides
                try db.execute(
                    sql: """
                        CREATE TRIGGER least_\(operation) AFTER \(operation) ON item BEGIN
                            INSERT INTO \(Self.table) (tbl, \(Self.names(columns, capturedSides)))
                                VALUES (1, \(Self.values(columns, capturedSides)));
                        END
                        """)
            }
        }
        try file.close()
    }

    private static func columns(for names: [String]) -> String {
        "number INTEGER PRIMARY KEY, tbl, " + Self.names(names, ["old", "new"])
    }

    private static func names(_ columns: [String], _ sides: [String]) -> String {
        sides.flatMap { side in columns.map { "\(side)_\($0)" } }.joined(separator: ", ")
    }

    private static func values(_ columns: [String], _ sides: [String]) -> String {
        sides.flatMap { side in columns.map { "\(side).\($0)" } }.joined(separator: ", ")
    }
}
