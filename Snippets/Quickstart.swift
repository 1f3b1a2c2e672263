// A Swift app that syncs: the code of the README, compiled and run by the tests.
//
// It needs a server whose zone has the table of its migration. The README's first steps start one;
// TIDEMARK_URL names another.

import Foundation

let server = ProcessInfo.processInfo.environment["TIDEMARK_URL"] ?? "http://127.0.0.1:8080"

// snippet.quickstart
import GRDB
import Tidemark

struct Player: Codable, FetchableRecord, SyncedRecord {  // new records need no id
    var id: Int64?
    var name: String
}

let database = try DatabaseQueue(path: "app.sqlite")
var migrator = DatabaseMigrator()
migrator.registerMigration("players") { db in
    try db.create(table: "player") { table in
        table.autoIncrementedPrimaryKey("id")
        table.column("name", .text).notNull()
    }
}
try migrator.migrate(database)

let sync = try await SyncEngine(database, server: server)
try database.write { db in
    var player = Player(name: "Carla")
    try player.insert(db)  // before the first sync player.id is -1, later it is permanent
}
try await sync.sync()  // once; `await sync.start()` goes on in the background

let observation = ValueObservation.tracking { db in try Player.fetchAll(db) }
for try await players in observation.values(in: database) {
    print(players.map { "\($0.id ?? 0) \($0.name)" })
    break  // an app goes on
}
// snippet.end
