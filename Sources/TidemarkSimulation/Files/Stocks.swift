import TidemarkCore
import TidemarkHistory

/// The tables of worlds of the profile `policies`: the usual ones, and one with counters.
///
/// Several devices add to the same counters. A CHECK refuses the sums that get too low.
enum Stocks {
    /// The version that stands for these tables among ``Migrations/versions``.
    static let version = Shapes.version + 1

    private static let minimum: Int64 = -12

    static let sql =
        ZoneSchema.sql + """

            CREATE TABLE stock (
                id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team ON DELETE CASCADE, name TEXT,
                amount INTEGER DEFAULT 0 CHECK (amount >= \(minimum)), sold INTEGER NOT NULL DEFAULT 0);
            CREATE INDEX stock_team ON stock (team_id);
            """

    static let rows =
        ZoneSchema.rows + """

            INSERT INTO stock (team_id, name, amount) VALUES (1, 's.12', 5), (NULL, 's.13', 0), (2, 's.14', NULL);
            """

    static let table: ZoneSchema.Table = {
        var stock = ZoneSchema.Table(
            "stock", ["id", "team_id", "name", "amount", "sold"], key: [0], defaults: ["amount": "0", "sold": "0"])
        stock.hasAssignedKeys = true
        stock.references = [(["team_id"], "team")]
        stock.minimums = ["amount": minimum]
        return stock
    }()

    /// The statements besides ``Statements/all``.
    static let statements: [Statement] = [
        Statement("sell", "UPDATE stock SET amount = amount - ?4, sold = sold + ?4 WHERE id = \(stock2)"),
        Statement("count", "UPDATE stock SET sold = sold + 1 WHERE id = \(stock2)"),
        Statement("deliver", "UPDATE stock SET amount = amount + ?4 + 1 WHERE id = \(stock2)"),
        Statement("sell and rename", "UPDATE stock SET amount = amount - 1, name = ?1 WHERE id = \(stock2)"),
        Statement("rename stock", "UPDATE stock SET name = ?1 WHERE id = \(stock3)"),
        Statement("stocktaking", "UPDATE stock SET amount = ?4 * 2 WHERE id = \(stock2)"),
        Statement("no amount", "UPDATE stock SET amount = NULL WHERE id = \(stock3) AND ?4 = 0"),
        Statement("part of one", "UPDATE stock SET amount = ?4 + 0.5 WHERE id = \(stock3) AND ?4 = 1"),
        Statement(
            "new stock", "INSERT INTO stock (team_id, name, amount) SELECT id, ?1, ?4 FROM team WHERE id = \(team3)"),
        Statement("remove stock", "DELETE FROM stock WHERE id = \(stock3) AND ?4 < 2"),
    ]

    private static let stock2 = Statements.nth("stock", key: "id", parameter: 2)
    private static let stock3 = Statements.nth("stock", key: "id", parameter: 3)
    private static let team3 = Statements.nth("team", key: "id", parameter: 3)

    /// Policies with those of the counters.
    static func policies(_ policies: [String: ConflictPolicy], table: ConflictPolicy) -> [String: ConflictPolicy] {
        policies.merging(["stock": table, "stock.amount": .add, "stock.sold": .add]) { $1 }
    }
}
