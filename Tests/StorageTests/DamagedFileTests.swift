import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkTestSupport

@testable import Tidemark
@testable import TidemarkEmbedded

/// Case 32: something other than SQLite has changed a device's file.
@Suite struct DamagedFileTests {
    /// The damage to a file.
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
            case .zeroedPage: for at in page * 4096..<(page + 1) * 4096 { bytes[at] = 0 }
            case .lostWAL: return
            }
            try disk.replace("device.sqlite", with: bytes)
        }
    }

    @Test(arguments: Damage.allCases)
    func `case 32: a damaged device file gives a typed error or syncs, and never harms the server`(damage: Damage)
        async throws
    {
        let joined = try await StorageBench.joined()
        // The rows are in the file, the edits are in its WAL.
        let bench = try StorageBench(await joined.image())
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.edit("UPDATE player SET name = 'edited' WHERE id = 7")
        let image = StorageBench.Image(device: bench.files(.device), server: bench.files(.server))
        var detected = 0
        for seed in 0..<12 {
            var random = SeededGenerator(seed: UInt64(seed))
            let bench = try StorageBench(image)
            try damage.apply(to: bench.device, &random)
            do { try await bench.sync() } catch let error as TidemarkError {
                detected += 1
                #expect(
                    [.fileDamaged, .storageFailed, .unusableFile].contains(error.code) || error.recovery != .retry,
                    "\(error)")
            } catch let error as DatabaseError {
                // The app opens the file itself, or the damage has changed the schema:
                // SQLite has no error code for that.
                detected += 1
                #expect([.SQLITE_ERROR, .SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode), "\(error)")
            } catch {
                detected += 1
                #expect(error is UnsyncableSchema || error is RowDecodingError, "\(error)")
            }
            let server = try bench.serverRows()
            #expect(!server.contains { $0.hasPrefix("damaged") }, "\(server)")
        }
        if damage == .zeroedPage || damage == .truncation { #expect(detected > 2) }
    }

    @Test func `case 32: rescue saves the outbox of a file whose rows are destroyed`() async throws {
        let bench = try await StorageBench.joined()
        // A conflict, a sent change set without an answer, an unsent one, and an edit.
        try await bench.edit("UPDATE team SET name = 'mine' WHERE id = 1")
        try bench.writeOutside("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await bench.sync()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        bench.losesAnswer = true
        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.losesAnswer = false
        try await bench.edit("INSERT INTO player (team_id, name) SELECT id, 'Anna' FROM team WHERE name = 'Bonn'")
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

    @Test func `case 32: rescue saves a sent change set of many chunks with its whole text`() async throws {
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

    @Test func `case 32: rescue reports an unreadable outbox and invents nothing`() async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.close()
        try bench.destroyPages(of: ["tidemark_capture_team"])
        let error = await #expect(throws: TidemarkError.self) { try await bench.rescueDevice() }
        #expect(error?.code == .fileDamaged)
    }

    @Test(arguments: [
        "tidemark_device", "tidemark_state", "tidemark_changeset", "tidemark_outbox", "tidemark_after", "tidemark_base",
        "tidemark_idmap", "tidemark_temporary", "tidemark_kept", "tidemark_kept_record", "tidemark_conflict",
        "tidemark_conflict_record", "tidemark_capture", "tidemark_capture_team", "sqlite_sequence",
    ]) func `case 32: records that read as NULLs give a typed error, never a crash`(table: String) async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("UPDATE team SET name = 'mine' WHERE id = 1")
        try bench.writeOutside("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await bench.sync()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        bench.losesAnswer = true
        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.losesAnswer = false
        try await bench.close()
        // Not drained yet, because another program wrote it.
        let other = try bench.device.database("device.sqlite")
        try await other.write { try $0.execute(sql: "UPDATE team SET points = 9 WHERE id = 2") }
        try other.close()
        try bench.makeNulls(of: table)
        for _ in 0..<2 { try await expectTyped(table) { try await bench.sync() } }
        try await expectTyped(table) { _ = try await bench.engine?.status() }
        try await expectTyped(table) { _ = try await bench.engine?.conflicts() }
        bench.drop(.device)
        try await expectTyped(table) {
            try await bench.rescueDevice()
            try await bench.sync()
        }
    }

    /// Runs an operation that must succeed or report the damage as a typed error.
    private func expectTyped(_ table: String, _ work: () async throws -> Void) async throws {
        do { try await work() } catch let error as TidemarkError {
            #expect(
                [.fileDamaged, .unusableFile].contains(error.code) || error.recovery != .permanent, "\(table): \(error)"
            )
        }
    }

    /// The lost part of a pending change set, beside its entry in the index.
    enum Loss: String, CaseIterable {
        case nothing
        case records = "DELETE FROM tidemark_outbox"
    }

    @Test(arguments: Loss.allCases)
    func `case 32: a sync that the file cannot store ends after a bounded number of rounds`(loss: Loss) async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        // Drains the captured rows.
        _ = try await bench.engine?.checkRows()
        try await bench.close()
        // The index over change sets has another id, as after a flipped bit.
        let file = try bench.device.database("device.sqlite")
        try await file.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE spare (id TEXT UNIQUE);
                    INSERT INTO spare (rowid, id) SELECT seq, 'x' FROM tidemark_changeset;
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET rootpage = (
                        SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_spare_1')
                    WHERE name = 'sqlite_autoindex_tidemark_changeset_1';
                    PRAGMA writable_schema = OFF;
                    """
            )
            if loss != .nothing { try db.execute(sql: loss.rawValue) }
        }
        try file.close()
        try bench.writeOutside("UPDATE team SET points = 5 WHERE id = 2")
        let error = await #expect(throws: TidemarkError.self) { try await bench.sync() }
        #expect(error?.code == .fileDamaged, "\(error?.description ?? "")")
    }

    @Test func `case 32: rescue leaves out data that the server has`() async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.close()
        let file = try bench.device.database("device.sqlite")
        try await file.write { db in
            try db.execute(
                sql: """
                    UPDATE tidemark_device SET fitted_local = '<' || substr(fitted_local, 2),
                        fitted_schema = '<', schema = '<', fingerprint = '<', rebuilt = '<',
                        open_laps = '<', time = -1, overruled = -1
                    """
            )
        }
        try file.close()
        try await bench.rescueDevice()
        try await bench.sync()
        #expect(try await bench.verdict().filter { $0.contains("Bonn") }.count == 1)
    }

    @Test(arguments: ["tidemark_idmap", "sqlite_sequence", "tidemark_temporary", "tidemark_base"])
    func `case 32: damage in a table that rescue does not need does not stop it`(table: String) async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.close()
        try bench.destroyPages(of: [table])
        try await bench.rescueDevice()
        try await bench.edit("INSERT INTO team (name) VALUES ('Trier')")
        try await bench.sync()
        let rows = try await bench.verdict()
        #expect(rows.filter { $0.contains("Bonn") || $0.contains("Trier") }.count == 2)
    }

    @Test(arguments: ["tidemark_after_insert_team", "tidemark_outbox", "tidemark_capture_team"])
    func `case 32: a damaged schema entry does not keep rescue from the outbox`(entry: String)
        async throws
    {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        try await bench.close()
        let file = try bench.device.database("device.sqlite")
        try await file.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET sql = replace(sql, 'CREATE', 'CRE<TE')
                    WHERE name = '\(entry)';
                    """
            )
            #expect(db.changesCount == 1)
        }
        try file.close()
        try await bench.rescueDevice()
        try await bench.sync()
        #expect(try await bench.verdict().filter { $0.contains("Bonn") }.count == 1)
    }

    @Test func `case 32: rescue names a change set with damaged text and does not copy it`() async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        bench.losesAnswer = true
        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.losesAnswer = false
        try await bench.close()
        let file = try bench.device.database("device.sqlite")
        let id = try await file.write { db in
            try db.execute(sql: "UPDATE tidemark_changeset SET wire = '<' || substr(wire, 2)")
            return try String.fetchOne(db, sql: "SELECT id FROM tidemark_changeset") ?? "none"
        }
        try file.close()
        let error = await #expect(throws: TidemarkError.self) { try await bench.rescueDevice() }
        #expect(error?.code == .fileDamaged)
        #expect(error?.message.contains(id) == true, "\(error?.description ?? "")")
    }

    @Test(arguments: [true, false])
    func `case 32: verify finds a new row whose outbox entry is lost, and queues it again`(hasBase: Bool) async throws {
        let bench = try await StorageBench.joined()
        try await bench.edit("INSERT INTO team (name) VALUES ('Bonn')")
        // Drains the captured rows.
        _ = try await bench.engine?.checkRows()
        try await bench.close()
        let file = try bench.device.database("device.sqlite")
        try await file.write { db in
            try db.execute(sql: "DELETE FROM tidemark_outbox; DELETE FROM tidemark_changeset")
            if !hasBase { try db.execute(sql: "DELETE FROM tidemark_base") }
        }
        try file.close()
        try await bench.reopen()
        let wrongRecords = try await bench.engine?.verify().records ?? []
        #expect(wrongRecords.map(\.difference) == [.unsent])
        #expect(wrongRecords.map(\.table) == ["team"])
        _ = try await bench.engine?.verify(repairing: true)
        try await bench.sync()
        #expect(try await bench.engine?.verify().records == [])
        #expect(try await bench.verdict().filter { $0.contains("Bonn") }.count == 1)
    }
}
