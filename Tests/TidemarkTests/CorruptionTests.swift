import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 17: one cell anywhere, one row, one change set twice: every change behind the triggers
/// is found by the next sync and repaired, while other devices and the user continue.
@Suite struct CorruptionTests {
    /// The number of corruptions; the environment can ask for more.
    static let count = Effort.count("TIDEMARK_CORRUPTIONS", short: 100, long: 100)

    @Test func `rule 17: 100 random corruptions are all found and repaired, pending edits are kept`()
        async throws
    {
        var random = SeededGenerator(seed: 10)
        let cluster = try Cluster(schema: FingerprintTests.schema, seed: FingerprintTests.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        for number in 1...Self.count {
            let player = Int.random(in: 1...60, using: &random)
            try await anna.write("UPDATE player SET note = \(number) WHERE id = \(player)")
            if Bool.random(using: &random) { try await anna.engine.sync() }
            let isPending = Bool.random(using: &random)
            if isPending { try await ben.write("INSERT INTO tag VALUES ('edit \(number)', x'00')") }
            let sound = try await ben.digest().hash
            let rowsBefore = try await Self.rows(ben)
            let parkedBefore = try await Self.parked(ben)
            let corruption = corruption(&random)
            try ben.corrupt(corruption)
            let harmed = try await Set(rowsBefore.symmetricDifference(Self.rows(ben)).map(Self.record))
            let isHarmed = try await ben.digest().hash != sound
            let comparisonsBefore = ben.transport.faults.comparisons.count
            try await ben.engine.sync()
            let isFound = ben.transport.faults.comparisons.count > comparisonsBefore
            #expect(isFound == isHarmed, "\(number): \(corruption)")
            #expect(try await ben.digest().hash == cluster.store.digest(zone: "main").hash, "\(number): \(corruption)")
            let parked = try await Self.parked(ben)[parkedBefore.count...]
            #expect(harmed.isSubset(of: parked.map(Self.record)), "\(number): \(corruption) left \(parked)")
            if isPending {
                let editCount = try await cluster.rows("SELECT count(*) FROM tag WHERE name = 'edit \(number)'")
                #expect(editCount == ["1"], "\(number): \(corruption)")
                try await ben.write("DELETE FROM tag WHERE name = 'edit \(number)'")
            }
        }
        try await cluster.converge(anna, ben)
        let rules = try await ben.engine.conflicts().flatMap(\.reasons).map(\.rule)
        #expect(Set(rules) == ["uncaptured"])
    }

    /// All rows, each behind its table and key.
    private static func rows(_ device: TestDevice) async throws -> Set<String> {
        try await Set(
            device.rows(
                """
                SELECT 'team ' || id, quote(name), quote(rank) FROM team
                UNION ALL SELECT 'player ' || id, quote(team_id) || quote(name) || quote(score) || quote(photo),
                    quote(note) || quote(born) FROM player
                UNION ALL SELECT 'tag ' || json_quote(name), quote(colour), '' FROM tag
                UNION ALL SELECT 'player_tag ' || json_array(player_id, tag), quote(weight), '' FROM player_tag
                """
            )
        )
    }

    /// The records of all conflicts, oldest first, each as table and key.
    private static func parked(_ device: TestDevice) async throws -> [String] {
        try await device.engine.conflicts().flatMap(\.records).map { "\($0.table) \($0.key)" }
    }

    private static func record(_ row: String) -> String { row.split(separator: "|").first.map(String.init) ?? row }

    private func corruption(_ random: inout SeededGenerator) -> String {
        let player = Int.random(in: 1...60, using: &random)
        let team = Int.random(in: 1...3, using: &random)
        let value =
            ["NULL", "''", "'x'", "x''", "x'00ff'", "0", "-1", "1e300", "0.1", "9223372036854775807"].randomElement(
                using: &random) ?? "0"
        let columns = ["team_id", "name", "score", "photo", "note", "born"]
        let column = columns.randomElement(using: &random) ?? "name"
        switch Int.random(in: 0..<12, using: &random) {
        case 0: return "DELETE FROM player WHERE id = \(player)"
        case 1: return "DELETE FROM player_tag WHERE player_id % 7 = \(player % 7)"
        case 2: return "INSERT INTO player (id, name) VALUES (\(player + 5000), 'surplus')"
        case 3: return "UPDATE player_tag SET weight = \(value) WHERE player_id = \(player)"
        case 4: return "UPDATE team SET rank = \(10 + player) WHERE id = \(team)"
        case 5: return "UPDATE tag SET colour = \(value) WHERE name = 'red'"
        case 6: return "UPDATE player SET score = score + score WHERE id = \(player)"
        default:
            let fit = column == "team_id" ? "\(team)" : value
            return "UPDATE player SET \(column) = \(fit) WHERE id = \(player)"
        }
    }
}
