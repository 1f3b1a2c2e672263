import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkTestSupport

@testable import Tidemark
@testable import TidemarkSQLiteStore

/// Reliability case 32: something other than SQLite has changed a device's file.
@Suite struct DamagedFileTests {
    /// What happens to a file.
    enum Damage: CaseIterable {
        case bitFlips, truncation, zeroedPage, lostWAL

        func apply(to disk: FaultVolume, _ random: inout SeededGenerator) throws {
            guard self != .lostWAL else { return try disk.replace("device.sqlite-wal", with: nil) }
            var bytes = disk.contents(of: "device.sqlite") ?? []
            let page = Int.random(in: 0..<bytes.count / 4096, using: &random)
            switch self {
            case .bitFlips:
                for _ in 0..<Int.random(in: 1...20, using: &random) {
                    let at = Int.random(in: 0..<bytes.count, using: &random)
                    bytes[at] ^= UInt8(1) << UInt8.random(in: 0..<8, using: &random)
                }
            case .truncation: bytes.removeLast(bytes.count - page * 4096 - page % 7 * 100)
            case .zeroedPage:
                for at in page * 4096..<(page + 1) * 4096 { bytes[at] = 0 }
            case .lostWAL: return
            }
            try disk.replace("device.sqlite", with: bytes)
        }
    }

    @Test(arguments: Damage.allCases)
    func `case 32: a damaged device ends in a typed error or syncs, and never harms the server`(
        damage: Damage
    ) async throws {
        let joined = try await StorageBench.joined()
        // The rows are in the file, the edits in its WAL.
        let bench = try StorageBench(await joined.image())
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.edit("UPDATE player SET name = 'edited' WHERE id = 7")
        let image = StorageBench.Image(
            device: bench.files(.device),
            server: bench.files(.server)
        )
        var detected = 0
        for seed in 0..<12 {
            var random = SeededGenerator(seed: UInt64(seed))
            let bench = try StorageBench(image)
            try damage.apply(to: bench.device, &random)
            do {
                try await bench.sync()
            } catch let error as TidemarkError {
                detected += 1
                #expect(
                    [.fileDamaged, .storageFailed, .unusableFile].contains(error.code)
                        || error.recovery != .retry,
                    "\(error)"
                )
            } catch let error as DatabaseError {
                // The app's own opening of the file, or a schema that the damage has made another:
                // SQLite has no code of its own for that.
                detected += 1
                #expect(
                    [.SQLITE_ERROR, .SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode),
                    "\(error)"
                )
            } catch {
                detected += 1
                #expect(error is UnsyncableSchema || error is RowDecodingError, "\(error)")
            }
            let server = try bench.serverRows()
            #expect(!server.contains { $0.hasPrefix("damaged") }, "\(server)")
        }
        if damage == .zeroedPage || damage == .truncation { #expect(detected > 2) }
    }

    @Test func `case 32: a file whose rows are destroyed is rescued with all that waits`()
        async throws
    {
        let bench = try await StorageBench.joined()
        // A conflict, a change set that was sent without an answer, one that was not, and an edit.
        try await bench.edit("UPDATE team SET name = 'mine' WHERE id = 1")
        try bench.writeOutside("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await bench.sync()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        bench.losesAnswer = true
        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.losesAnswer = false
        try await bench.edit(
            "INSERT INTO player (team_id, name) SELECT id, 'Anna' FROM team WHERE name = 'Bonn'"
        )
        try await bench.close()
        try bench.destroyPages(of: ["team", "player"])

        let error = await #expect(throws: TidemarkError.self) { try await bench.sync() }
        #expect(error?.code == .fileDamaged)
        bench.drop(.device)
        try await bench.rescueDevice()
        #expect(try await bench.engine?.conflicts().count == 1)
        try await bench.sync()
        let rows = try await bench.verdict()
        #expect(rows.filter { $0.contains("Bonn") || $0.contains("Anna") }.count == 2)
        #expect(rows.contains { $0.contains("theirs") })
        #expect(rows.count == 45)
    }

    @Test func `case 32: a long change set that was sent is rescued with every piece of its text`()
        async throws
    {
        let bench = try await StorageBench.joined()
        try await bench.edit(
            """
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                INSERT INTO team (name) SELECT printf('Bonn %d %.60c', i, 'x') FROM n
            """
        )
        bench.losesAnswer = true
        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.losesAnswer = false
        try await bench.close()
        try bench.destroyPages(of: ["team", "player"])

        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.drop(.device)
        try await bench.rescueDevice()
        try await bench.sync()
        #expect(try await bench.verdict().filter { $0.contains("Bonn") }.count == 2_000)
    }

    @Test func `case 32: an outbox that cannot be read is said to be so, and nothing is made up`()
        async throws
    {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.close()
        try bench.destroyPages(of: ["tidemark_capture_team"])
        let error = await #expect(throws: TidemarkError.self) { try await bench.rescueDevice() }
        #expect(error?.code == .fileDamaged)
    }
}
