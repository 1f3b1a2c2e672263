import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// The search for differing records, and its cost.
@Suite struct RepairTests {
    private static let schema = """
        CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, population INTEGER);
        CREATE TABLE sign (code TEXT PRIMARY KEY, city_id INTEGER REFERENCES city);
        CREATE INDEX sign_city ON sign (city_id);
        """
    private static func seed(_ rows: Int) -> String {
        """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
        INSERT INTO city SELECT i, 'C' || i, i * 7 FROM n;
        INSERT INTO sign SELECT printf('%05d', id), id FROM city WHERE id % 10 = 0;
        """
    }

    @Test func `F2, rule 17: three wrong rows of 6,600 cost six requests of a few kilobytes`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(6_000))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try ben.corrupt(
            """
            UPDATE city SET population = population + 1 WHERE id = 17;
            DELETE FROM city WHERE id = 3001;
            INSERT INTO sign VALUES ('zz', 5)
            """
        )
        let verification = try await ben.engine.verify()
        #expect(
            verification.records.map { "\($0.difference) \($0.table) \($0.key) \($0.columns)" } == [
                #"surplus sign "zz" []"#, "changed city 17 [\"population\"]", "missing city 3001 []",
            ]
        )
        #expect(verification.roundTrips <= 6 && verification.bytesSent + verification.bytesReceived < 40_000)
        #expect(try await ben.rows("SELECT population FROM city WHERE id = 17") == ["120"])
        let healed = try await ben.events { try await ben.engine.sync() }
        let repaired = healed.compactMap { if case .repaired(let records) = $0 { records } else { nil } }.flatMap(
            \.self)
        #expect((1...3).contains(repaired.count))
        #expect(!healed.contains { if case .snapshotTaken = $0 { true } else { false } })
        try await cluster.converge(ben)
    }

    @Test func `F2: a device that equals the server proves it in a few hundred bytes`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(500))
        let ben = try await cluster.device("ben")
        let verification = try await ben.engine.verify()
        #expect(verification.records.isEmpty && verification.roundTrips == 1)
        #expect(verification.bytesSent + verification.bytesReceived < 800)
    }

    @Test func `rule 17: a large file is verified after a day, or on request`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let ben = try await cluster.device("ben")
        let clock = Clock()
        var limits = Limits.standard
        limits.fingerprintRowsMax = 100
        let clockOfEngine = SyncEngine.Environment(now: { clock.time.withLock { $0 } }, newID: { UUID() })
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test", transport: ben.transport, environment: clockOfEngine,
            limits: limits)
        try await engine.sync()
        try ben.corrupt("UPDATE city SET name = 'x' WHERE id = 17")
        try await engine.sync()
        #expect(try await ben.rows("SELECT name FROM city WHERE id = 17") == ["x"])
        let books = try await engine.checkRows()
        #expect(books.expected != nil && books.expected != books.computed)
        clock.time.withLock { $0 += 86_400 }
        try await engine.sync()
        #expect(try await ben.rows("SELECT name FROM city WHERE id = 17") == ["C17"])
    }

    @Test func `rule 17: a comparison survives commits made during it`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try ben.corrupt("UPDATE city SET name = 'x' WHERE id IN (17, 170)")
        try await ben.write("UPDATE city SET population = 0 WHERE id = 18")
        ben.transport.whileComparing {
            try await anna.write("UPDATE city SET name = 'anna' WHERE id IN (17, 19)")
            try await anna.engine.sync()
        }
        try await cluster.converge(ben, anna)
        #expect(
            try await cluster.rows("SELECT name, population FROM city WHERE id IN (17, 18, 170)") == [
                "anna|119", "C18|0", "C170|1190",
            ]
        )
    }

    @Test func `rule 17: the next sync continues an interrupted comparison`() async throws {
        for cut in 1...4 {
            let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
            let ben = try await cluster.device("ben")
            try await ben.engine.sync()
            try ben.corrupt("UPDATE city SET name = 'x' WHERE id IN (17, 170); DELETE FROM sign")
            for _ in 0..<cut { ben.transport.faults.add(.none) }
            ben.transport.faults.add(.answerLost)
            await ben.syncInVain()
            try await cluster.converge(ben)
        }
    }

    @Test func `rule 17: a wrongly applied cell is rolled back and repaired`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try await anna.write("UPDATE city SET name = 'Kiel' WHERE id = 17")
        try await anna.engine.sync()
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test", transport: Misprint(real: ben.transport))
        try await engine.sync()
        #expect(ben.transport.faults.comparisons.count > 1)
        #expect(try await ben.rows("SELECT name FROM city WHERE id = 17") == ["Kiel"])
        try await cluster.converge(ben, anna)
    }

    @Test func `rule 17: a cell changed unseen at the server reaches every device that compares`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try cluster.writeOutside(
            """
            UPDATE tidemark_state SET applying = 1;
            UPDATE city SET name = 'flipped' WHERE id = 17;
            UPDATE tidemark_state SET applying = 0;
            """
        )
        // No device can know yet; once one has asked, the others are told.
        #expect(try await ben.engine.verify(repairing: true).records.map(\.key) == ["17"])
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT name FROM city WHERE id = 17") == ["flipped"])
        // These rows were as the server had confirmed them, so nobody's edit was replaced.
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `rule 17: too many differences cause a snapshot, and pending edits are kept`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try ben.corrupt("UPDATE city SET name = name || '!' WHERE id <> 17")
        try await ben.write("UPDATE city SET population = 0 WHERE id = 17")
        var limits = Limits.standard
        limits.repairRangesMax = 3
        try await ben.reopened(limits: limits).engine.sync()
        try await cluster.converge(ben)
        #expect(try await cluster.rows("SELECT population FROM city WHERE id = 17") == ["0"])
    }

    @Test func `case 76: unrequested rows in a comparison are refused and change nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try ben.corrupt("UPDATE city SET name = 'flipped' WHERE id = 17")
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test",
            transport: Stowaway(real: InProcessTransport(to: cluster.service)))
        await #expect { try await engine.verify(repairing: true) } throws: {
            ($0 as? TidemarkError)?.code == .invalidResponse
        }
        #expect(try await ben.rows("SELECT name FROM city WHERE id IN (17, 200)") == ["flipped", "C200"])
        #expect(try await ben.engine.verify(repairing: true).records.map(\.key) == ["17"])
        try await cluster.converge(ben)
    }

    @Test func `rule 22: comparison values of wrong types are refused and change nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(300))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try ben.corrupt("UPDATE city SET name = 'flipped' WHERE id = 17")
        for (old, new) in [
            (#""epoch":""#, #""epoch":5,"was":""#), (#""fingerprint":""#, #""fingerprint":5,"was":""#),
            (#""revision":"#, #""revision":99999999999999999999,"was":"#),
        ] {
            let engine = try await SyncEngine(
                ben.database, server: "http://cluster.test",
                transport: Mistyped(real: InProcessTransport(to: cluster.service), old: old, new: new))
            await #expect { try await engine.verify(repairing: true) } throws: {
                ($0 as? TidemarkError)?.code == .invalidResponse
            }
            #expect(try await ben.rows("SELECT name FROM city WHERE id = 17") == ["flipped"])
        }
        #expect(try await ben.engine.verify(repairing: true).records.map(\.key) == ["17"])
        try await cluster.converge(ben)
    }

    @Test func `rule 9: ranges that overlap, or of an unknown table, are refused`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(3))
        let none = Fingerprint.none
        for (ranges, code) in [
            (#"{"table":"town","rows":0,"fingerprint":"\#(none)"}"#, ErrorCode.unknownTable),
            (#"{"table":"city","from":"1","rows":0,"fingerprint":"\#(none)"}"#, ErrorCode.invalidKey),
            (
                #"{"table":"city","rows":0,"fingerprint":"\#(none)"},{"table":"city","rows":0,"fingerprint":"\#(none)"}"#,
                ErrorCode.malformedRequest
            ), (#"{"table":"city"}"#, ErrorCode.malformedRequest),
        ] {
            let body = Array(#"{"revision":1,"ranges":[\#(ranges)]}"#.utf8)
            await #expect { try await cluster.store.fingerprints(zone: "main", body: body) } throws: {
                ($0 as? TidemarkError)?.code == code
            }
        }
    }
}

/// A clock that a test moves.
private final class Clock: Sendable { let time = Mutex(Date(timeIntervalSince1970: 1_000_000)) }

/// A transport that misprints a name in every answer to a sync.
private struct Misprint: ForwardingTransport {
    let real: InProcessTransport

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await real.sync(zone: zone, body: body)
        let text = String(decoding: answer, as: UTF8.self)
        return Array(text.replacing("\"Kiel\"", with: "\"Keil\"").utf8)
    }
}

/// A transport that replaces one part in every answer to a comparison.
private struct Mistyped: ForwardingTransport {
    let real: InProcessTransport
    let old: String
    let new: String

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await real.fingerprints(zone: zone, body: body)
        let text = String(decoding: answer, as: UTF8.self)
        let first = text.range(of: old).map { text.replacingCharacters(in: $0, with: new) }
        return Array((first ?? text).utf8)
    }
}

/// A transport that adds another row to the requested ones.
private struct Stowaway: ForwardingTransport {
    let real: InProcessTransport

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await real.fingerprints(zone: zone, body: body)
        let text = String(decoding: answer, as: UTF8.self).replacing("\"update\":[17]", with: "\"update\":[17,200]")
            .replacing("\"17\":{", with: "\"200\":{\"revision\":1,\"name\":\"evil\",\"population\":0},\"17\":{")
        return Array(text.utf8)
    }
}
