import Foundation
import TidemarkCore
import TidemarkEngine

/// Makes and removes zones while nodes serve the database: a row in `tidemark.zone`, and rows of tables.
extension PostgresStore: ZoneHost {
    /// Makes a zone without rows unless there is one; throws `unavailable` if the tables have no column for the zone.
    package func makeZone(_ name: String) async throws {
        try await zones.makeZone(name, epoch: UUID().uuidString.lowercased())
    }

    /// Removes a zone's rows and history in one transaction.
    package func removeZone(_ name: String) async throws { try await zones.removeZone(name) }
}

extension ZoneConnections {
    private static let bookkeeping = [
        "lineage", "revision", "fingerprint", "log", "verdict", "lap", "contact", "refused", "idmap", "identity",
        "overruled", "capture", "piece", "outside",
    ]

    /// Inserts a zone's row; one of an unknown name has no rows yet, so no writer has to be waited for.
    fileprivate func makeZone(_ name: String, epoch: String) async throws {
        guard try await revisions(of: [name]).isEmpty else { return }
        guard served.tables.values.allSatisfy({ $0.zoneColumn != nil }) else {
            throw TidemarkError(
                .unavailable, "The tables of this database have no column for the zone, so it has the zone main only.",
                fix: "Serve tables that Tidemark makes, or adopt them by --adopt --zone-column COLUMN.")
        }
        try await throwingClientErrors {
            try await onLivingConnection { pg in
                _ = try pg.query(
                    """
                    INSERT INTO tidemark.zone (zone, epoch, revision, horizon, adopted)
                    VALUES ($1, $2, 0, 0, 0)
                    ON CONFLICT (zone) DO NOTHING
                    """,
                    [name, epoch])
            }
        }
    }

    fileprivate func removeZone(_ name: String) async throws {
        let tables = served.schema.tables.reversed().compactMap { served.tables[$0.name] }
        try await throwingClientErrors {
            try await onLivingConnection { pg in
                try pg.transaction {
                    // Triggers capture no rows of a zone that does not exist.
                    try pg.query("DELETE FROM tidemark.zone WHERE zone = $1", [name])
                    try pg.execute("SET CONSTRAINTS ALL DEFERRED")
                    for table in tables where table.zoneColumn != nil {
                        try pg.query("DELETE FROM \(table.name) AS app_row WHERE \(table.inZone("app_row"))", [name])
                    }
                    for table in Self.bookkeeping {
                        try pg.query("DELETE FROM tidemark.\(table) WHERE zone = $1", [name])
                    }
                }
            }
        }
    }
}
