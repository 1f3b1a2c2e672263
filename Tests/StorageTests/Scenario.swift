import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A sequence of steps on a device and its server, from a reproducible state.
struct Scenario: Sendable, CustomTestStringConvertible {
    /// A step that is idempotent, so that it may run again after a failure.
    typealias Step = @Sendable (StorageBench) async throws -> Void

    let name: String
    /// The steps from a newly joined device to the start state.
    let before: [Step]
    /// The steps during which the disk may fail.
    let steps: [Step]

    var testDescription: String { name }

    static let all = [
        Scenario(name: "both open their files", before: [], steps: [{ try await $0.reopen() }]),
        Scenario(
            name: "the app writes a team with players", before: [open],
            steps: [edit(newTeam), edit("UPDATE team SET points = 3 WHERE id = 1")]),
        Scenario(
            name: "new records are sent and get their ids", before: [edit(newTeam), edit(newTeam2)], steps: [sync]),
        Scenario(
            name: "others' changes and outside writes arrive", before: [open],
            steps: [outside(theirTeam), sync, outside("DELETE FROM player WHERE id < 9"), sync]),
        Scenario(
            name: "a conflict is parked among accepted sets, and retried",
            before: [
                edit(newTeam), edit("UPDATE team SET name = 'mine' WHERE id = 1"), edit(newTeam2),
                outside("UPDATE team SET name = 'theirs' WHERE id = 1"),
            ],
            steps: [sync, retry, sync]
        ),
        Scenario(
            name: "edits wait while a new history's snapshot is taken",
            before: [
                edit(newTeam), sync, edit(newTeam2), edit("DELETE FROM player WHERE id = 4"),
                outside("UPDATE tidemark_zone SET epoch = 'e1111111-0000-4000-8000-000000000000'"),
            ],
            steps: [sync]
        ),
        Scenario(
            name: "a cache of ten pages spills into the file", before: [small, edit(many), outside(theirTeam)],
            steps: [sync, edit("DELETE FROM team WHERE id = 2"), sync]),
    ]

    // MARK: Steps

    private static let newTeam = """
        INSERT INTO team (name) SELECT 'Bonn' WHERE NOT EXISTS (SELECT 1 FROM team WHERE name = 'Bonn');
        INSERT INTO player (team_id, name) SELECT id, 'Anna' FROM team WHERE name = 'Bonn'
            AND NOT EXISTS (SELECT 1 FROM player WHERE name = 'Anna');
        INSERT INTO player (team_id, name) SELECT id, 'Ben' FROM team WHERE name = 'Bonn'
            AND NOT EXISTS (SELECT 1 FROM player WHERE name = 'Ben');
        """
    private static let newTeam2 = """
        INSERT INTO player (team_id, name) SELECT id, 'Cleo' FROM team WHERE name = 'Bonn'
            AND NOT EXISTS (SELECT 1 FROM player WHERE name = 'Cleo');
        UPDATE team SET points = 9 WHERE name = 'Bonn' AND points <> 9;
        """
    private static let theirTeam = """
        INSERT INTO team (name) SELECT 'Trier' WHERE NOT EXISTS (SELECT 1 FROM team WHERE name = 'Trier');
        INSERT INTO player (team_id, name) SELECT id, 'Dora' FROM team WHERE name = 'Trier'
            AND NOT EXISTS (SELECT 1 FROM player WHERE name = 'Dora');
        UPDATE team SET points = 5 WHERE id = 2 AND points <> 5;
        """
    private static let many = """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
        INSERT INTO player (team_id, name, photo) SELECT 1 + i % 3, 'extra ' || i, zeroblob(700) FROM n;
        """

    private static let open: Step = { try await $0.reopen() }
    private static let sync: Step = { try await $0.sync() }
    private static let small: Step = { try await $0.useSmallCaches() }
    private static let retry: Step = { bench in
        try await bench.reopen()
        for conflict in try await bench.engine?.conflicts() ?? [] {
            try await bench.engine?.resolve(conflict, with: .retry)
        }
    }

    private static func edit(_ sql: String) -> Step { { try await $0.edit(sql) } }

    private static func outside(_ sql: String) -> Step {
        { bench in
            try await bench.reopen()
            try bench.writeOutside(sql)
        }
    }
}
