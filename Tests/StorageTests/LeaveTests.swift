import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 2: a device leaves a zone, and its disk fails or its power goes at each step.
@Suite struct LeaveTests {
    private static let refusal = TidemarkError(.accessRevoked, "You are no longer a member.", fix: "Ask an owner.")

    /// The step between failing calls.
    private static let stride = Effort.count("TIDEMARK_STORAGE_STRIDE", short: 23, long: 3)

    /// The parked changes, with their rules; the outbox and the rows are empty.
    private static let parked = [
        "forbidden update team 2: {\"points\":4}", "forbidden update team 1: {\"name\":\"unsent\"}",
        "forbidden create team: {\"name\":\"new\"}",
    ].sorted()

    /// A device with a change set whose verdict was lost, and with two that were never sent.
    private func start() async throws -> StorageBench.Image {
        let bench = try await StorageBench.joined()
        try await bench.edit("UPDATE team SET points = 4 WHERE id = 2")
        bench.losesAnswer = true
        await #expect(throws: TidemarkError.self) { try await bench.sync() }
        bench.losesAnswer = false
        try await bench.edit("UPDATE team SET name = 'unsent' WHERE id = 1")
        try await bench.edit("INSERT INTO team (name, points) VALUES ('new', NULL)")
        return try await bench.image()
    }

    /// Syncs until the device has left, and returns what it parked.
    private func leave(_ bench: StorageBench) async throws -> [String] {
        await #expect(throws: Self.refusal) { try await bench.sync() }
        let status = try #require(try await bench.engine?.status())
        #expect(status.pendingChangeSets == 0)
        #expect(status.pendingRecords == 0)
        #expect(status.epoch == nil)
        let rows = try await bench.database?.read { db in
            try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM team) + (SELECT count(*) FROM player)")
        }
        #expect(rows == 0)
        return try await bench.engine?.conflicts().flatMap { conflict in
            conflict.records.map { record in
                let key = record.operation == "create" ? "" : " \(record.key)"
                let mine = record.mine?.replacing(",\"points\":null", with: "") ?? ""
                return "\(conflict.reasons.map(\.rule).joined()) \(record.operation) \(record.table)\(key): \(mine)"
            }
        }.sorted() ?? []
    }

    @Test func `unsent changes and ones without a verdict are parked, with base and mine`() async throws {
        let bench = try StorageBench(try await start())
        try await bench.reopen()
        bench.refusal = Self.refusal
        #expect(try await leave(bench) == Self.parked)
        let conflicts = try #require(try await bench.engine?.conflicts())
        let sent = try #require(conflicts.first { $0.records.contains { $0.key == "2" } })
        #expect(sent.reasons.first?.message.contains("may have applied") == true)
        #expect(sent.records.first?.base?.contains("Jena") == true)
        let unsent = try #require(conflicts.first { $0.records.contains { $0.key == "1" } })
        #expect(unsent.reasons.first?.message.contains("may have applied") == false)
        #expect(unsent.records.first?.base?.contains("Kiel") == true)
        // A second refusal changes nothing, and edits made since are parked as well.
        #expect(try await leave(bench) == Self.parked)
        try await bench.edit("INSERT INTO team (name, points) VALUES ('later', NULL)")
        #expect(try await leave(bench).count == Self.parked.count + 1)
    }

    @Test func `a member who is invited again gets all rows, and can retry the parked changes`() async throws {
        let bench = try StorageBench(try await start())
        try await bench.reopen()
        bench.refusal = Self.refusal
        _ = try await leave(bench)
        bench.refusal = nil
        try await bench.sync()
        #expect(try await bench.verdict() == bench.serverRows())
        for conflict in try await bench.engine?.conflicts() ?? [] {
            try await bench.engine?.resolve(conflict, with: .retry)
        }
        try await bench.sync()
        let rows = try await bench.verdict().filter { $0.hasPrefix("team") }
        #expect(rows.filter { $0.hasSuffix(" new -") }.count == 1)
        #expect(rows.contains("team 1 unsent 0"))
        #expect(rows.contains("team 2 Jena 4"))
    }

    @Test(arguments: [FaultVolume.Fault.io, .full, .power])
    func `a failure or a power cut at any disk call leaves the device before or after it`(fault: FaultVolume.Fault)
        async throws
    {
        let start = try await start()
        for call in Swift.stride(from: 1, to: 5_000, by: Self.stride) {
            let bench = try StorageBench(start)
            try await bench.reopen()
            bench.refusal = Self.refusal
            bench.device.fail(fault, call: call, of: fault == .full ? .growing : .all, onwards: fault == .full)
            await #expect(throws: (any Error).self) { try await bench.sync() }
            let isDone = bench.device.failureCount == 0
            if fault == .power {
                bench.device.crash(seed: UInt64(call))
                bench.drop(.device)
            } else {
                bench.device.heal()
            }
            try await bench.reopen()
            let parked = try await leave(bench)
            #expect(parked == Self.parked, "\(fault), call \(call)")
            if isDone || parked != Self.parked { return }
        }
    }

    @Test func `values of a column that only this device has are parked`() async throws {
        let bench = try StorageBench(try await start())
        try await bench.edit("ALTER TABLE player ADD COLUMN color TEXT")
        try await bench.edit("UPDATE player SET color = 'red' WHERE id = 7")
        bench.refusal = Self.refusal
        let parked = try await leave(bench)
        #expect(parked == (Self.parked + [#"forbidden update player 7: {"color":"red"}"#]).sorted())
        bench.refusal = nil
        try await bench.sync()
        for conflict in try await bench.engine?.conflicts() ?? [] where conflict.records[0].table == "player" {
            try await bench.engine?.resolve(conflict, with: .retry)
        }
        let color = try await bench.database?.read {
            try String.fetchOne($0, sql: "SELECT color FROM player WHERE id = 7")
        }
        #expect(color == "red")
    }

    @Test func `rows with edits that no trigger captured stay, because only this file has them`() async throws {
        let bench = try StorageBench(try await start())
        try await bench.reopen()
        try await bench.database?.write { db in
            try db.execute(sql: "UPDATE tidemark_state SET applying = 1")
            try db.execute(sql: "UPDATE player SET name = 'uncaptured' WHERE id = 7")
            try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
        }
        bench.refusal = Self.refusal
        await #expect(throws: Self.refusal) { try await bench.sync() }
        let name = try await bench.database?.read {
            try String.fetchOne($0, sql: "SELECT name FROM player WHERE id = 7")
        }
        #expect(name == "uncaptured")
        #expect(try await bench.engine?.status().pendingChangeSets == 0)
        #expect(try await bench.engine?.conflicts().flatMap(\.records).count == Self.parked.count)
    }
}
