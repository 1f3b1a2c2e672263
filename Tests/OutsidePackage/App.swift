import Foundation
import GRDB
import Tidemark

// An app that takes the product `Tidemark` alone: `App FILE URL`.

struct Player: Codable, FetchableRecord, SyncedRecord {
    static let name = RecordColumn<Player, String>("name")
    var id: Int64?
    var name: String
}

@main enum App {
    static func main() async throws {
        let database = try DatabaseQueue(path: CommandLine.arguments[1])
        try await database.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS player (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        }
        let line = try await addPlayer(to: database, server: CommandLine.arguments[2])
        FileHandle.standardOutput.write(Data("\(line)\n".utf8))
    }

    /// Sets limits and a merge, writes, shows the state, waits for the server, and decides by the errors.
    static func addPlayer(to database: DatabaseQueue, server: String) async throws -> String {
        var limits = Limits.standard
        limits.valueBytesMax = 1 << 20
        let merge = RecordMerge<Player> { _, mine, _ in mine[Player.name] == .absent ? mine : nil }
        let sync = try await SyncEngine(database, server: server, limits: limits, merges: [merge])
        do {
            try await sync.waitForFirstSync(within: .seconds(10))
            let player = try await database.write { db in
                var player = Player(id: nil, name: "Carla")
                try player.insert(db)
                return player
            }
            let before = try await sync.state(of: player)
            let receipt = try await sync.waitUntilSynced(player, within: .seconds(10))
            for try await state in sync.states(of: player) where state.isSynced { break }
            for await status in sync.statuses where status.pendingChangeSets == 0 { break }
            await sync.stop()
            return "\(before), then on the server at revision \(receipt.revision)"
        } catch WaitError.notYet(let pending) {
            return "\(pending) change sets wait"
        } catch let error as TidemarkError where error.code == .unreachable {
            return "\(error.recovery): \(error.message)"
        }
    }

    /// Shows what others changed, and the versions of refused records.
    static func watch(_ sync: SyncEngine) async throws {
        for await case .changed(let changes) in sync.deviceEvents {
            if changes.change(of: RecordName("player", 7)) == .deleted { break }
        }
        for await conflicts in sync.openConflicts {
            for record in conflicts.flatMap(\.records) { _ = try record.versions(as: Player.self).theirs?.record() }
            for conflict in conflicts { try await sync.resolve(conflict.id, with: .accept) }
        }
    }
}
