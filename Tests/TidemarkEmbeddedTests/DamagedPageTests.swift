import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// An unreadable page of a served file.
@Suite struct DamagedPageTests {
    @Test func `case 32: a damaged page affects only the devices with rows on it`() async throws {
        let path = try TestZone.newFolder().appending(path: "zone.sqlite").path
        let page = try await DatabaseQueue(path: path).write { db in
            try db.execute(
                sql: """
                    CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
                    CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT);
                    INSERT INTO team VALUES (1, 'Kiel');
                    INSERT INTO player VALUES (1, 'Anna');
                    """
            )
            return try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_master WHERE name = 'player'")
        }
        // Once the fingerprint of all rows is stored, no request reads all rows.
        _ = try await Self.answers([#""team":{"create":[-1],"attributes":{"-1":{"name":"Jena"}}}"#], at: 1, path)
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.seek(toOffset: UInt64(try #require(page) - 1) * 4_096)
        try file.write(contentsOf: Data(repeating: 0xff, count: 4_096))
        try file.close()
        let sets = [
            #""team":{"update":[1],"attributes":{"1":{"name":"Ulm"}}}"#,
            #""player":{"update":[1],"attributes":{"1":{"name":"Ben"}}}"#,
            #""team":{"create":[-1],"attributes":{"-1":{"name":"Jena"}}}"#,
        ]
        let answers = try await Self.answers(sets, at: 2, path)
        _ = try answers[0].get()
        let error = #expect(throws: TidemarkError.self) { try answers[1].get() }
        #expect(error?.code == .fileDamaged)
        _ = try answers[2].get()
    }

    /// The answers for devices at a revision that send a change set each, in one group.
    private static func answers(_ sets: [String], at revision: Int, _ path: String) async throws -> [Result<
        [UInt8], any Error
    >] {
        let store = try EmbeddedStore(path: path, newEpoch: UUID())
        let bodies = sets.map { set in
            #"{"maxRevision":\#(revision),"device":"\#(UUID())","changeSets":[{"id":"\#(UUID())",\#(set)}]}"#
        }
        let requests = bodies.map { ZoneRequest(.sync(Array($0.utf8)), access: .local(EmbeddedStore.zoneName)) }
        let answers = try await store.commit(EmbeddedStore.zoneName, requests)
        try await store.close()
        return answers.map { $0.map(\.text) }
    }
}
