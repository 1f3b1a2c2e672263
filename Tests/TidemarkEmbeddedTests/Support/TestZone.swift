import Foundation
import GRDB
import StoreTestSupport
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A served file in a folder of its own, addressed in JSON as a client would.
final class TestZone: Sendable {
    let folder: URL
    let path: String
    let store: EmbeddedStore

    /// Creates a file with `sql`, then adopts it.
    init(
        _ sql: String, excluding: Set<String> = [], policies: [String: ConflictPolicy] = [:], limits: Limits = .standard
    ) throws {
        folder = try Self.newFolder()
        path = folder.appending(path: "zone.sqlite").path
        try Self.write(sql, to: path)
        store = try EmbeddedStore(
            path: path, newEpoch: UUID(), excluding: excluding, policies: policies, limits: limits)
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// A new folder in the system's temporary folder.
    static func newFolder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Creates a file as any program would, with the faults that SQLite allows.
    static func write(_ sql: String, to path: String) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let file = try DatabaseQueue(path: path, configuration: configuration)
        try file.writeWithoutTransaction { try $0.execute(sql: sql) }
        try file.close()
    }

    /// Sends a body and returns the bytes of the answer.
    func bytes(_ body: String) async throws -> [UInt8] {
        try await store.sync(zone: EmbeddedStore.zoneName, body: Array(body.utf8))
    }

    /// Sends a body and reads the answer.
    func sync(_ body: String) async throws -> Answer { try Answer(try await bytes(body)) }

    /// Sends change sets and reads the answer.
    func sync(at revision: Int64, device: String? = nil, _ changeSets: String...) async throws -> Answer {
        let device = device.map { #""device":"\#($0)","# } ?? ""
        let list = changeSets.joined(separator: ",")
        return try await sync(#"{"maxRevision":\#(revision),\#(device)"changeSets":[\#(list)]}"#)
    }

    /// The code of the error that refuses a body.
    func refusal(of body: String) async throws -> TidemarkError? {
        do {
            _ = try await bytes(body)
            return nil
        } catch let error as TidemarkError { return error }
    }

    /// The state that a refused request must not change.
    func content() async throws -> Content {
        let tables = try await read { db in
            try ["zone", "revision", "log", "verdict", "idmap", "identity", "capture"].map { name in
                try Row.fetchAll(db, sql: "SELECT * FROM tidemark_\(name)").map(\.description)
            }
        }
        return Content(digest: try await store.digest(zone: "main"), bookkeeping: tables)
    }

    /// The rows of the zone and the server's bookkeeping about them.
    struct Content: Equatable {
        let digest: ZoneDigest
        let bookkeeping: [[String]]
    }

    /// Writes into the served file, as the sqlite3 shell would.
    func writeOutside(_ sql: String, foreignKeys: Bool = true) async throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = foreignKeys
        configuration.busyMode = .timeout(10)
        let file = try DatabaseQueue(path: path, configuration: configuration)
        try await file.write { try $0.execute(sql: sql) }
        try file.close()
    }

    /// Reads the served file through a connection of its own.
    func read<Value: Sendable>(_ value: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let file = try DatabaseQueue(path: path, configuration: configuration)
        let result = try await file.read(value)
        try file.close()
        return result
    }

    /// The first column of a query, each value as text, NULL as `NULL`.
    func column(_ sql: String) async throws -> [String] {
        try await read { db in try DatabaseValue.fetchAll(db, sql: sql).map(\.storage.text) }
    }
}

extension DatabaseValue.Storage {
    /// The value as SQL text.
    var text: String {
        switch self {
        case .null: "NULL"
        case .int64(let value): String(value)
        case .double(let value): String(value)
        case .string(let value): value
        case .blob(let data): "x'" + data.map { String(format: "%02x", $0) }.joined() + "'"
        }
    }
}
