/// Looks into a database for users, and changes nothing.
package enum AccessPresence {
    /// Whether the database has users; throws ``PostgresFailure``.
    package static func hasUsers(address: String) async throws -> Bool {
        try await pool(address).run { pg in
            guard try pg.text("SELECT to_regclass('tidemark.tidemark_user')") != nil else { return false }
            return try pg.integer("SELECT count(*) FROM (SELECT 1 FROM tidemark.tidemark_user LIMIT 1) AS first") == 1
        }
    }

    /// Returns the database's zones, none if no server has served it; throws ``PostgresFailure``.
    package static func zones(address: String) async throws -> [String] {
        try await pool(address).run { pg in
            guard try pg.text("SELECT to_regclass('tidemark.zone')") != nil else { return [] }
            return try pg.query("SELECT zone FROM tidemark.zone ORDER BY zone").map { $0.text(0) }
        }
    }

    private static func pool(_ address: String) -> PostgresPool {
        PostgresPool(address: address, sizeMax: 1)
    }
}
