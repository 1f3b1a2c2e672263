import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkEmbedded
import TidemarkTestSupport

/// Rule 31, cases 3 4 6: the disk fails during the commit of a group.
@Suite struct GroupFaultTests {
    private static let devices = 5

    /// A zone on a failing disk, and devices that push at the same time.
    private struct Bench {
        let disk: FaultVolume
        let latch = Latch()
        let arrivals = ArrivalWatch()
        let store: EmbeddedStore

        init(_ files: [String: [UInt8]] = [:]) throws {
            disk = try FaultVolume()
            for (file, bytes) in files { try disk.replace(file, with: bytes) }
            store = try EmbeddedStore(
                path: disk.path(of: "zone.sqlite"),
                schemaSQL: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE)", newEpoch: UUID(),
                now: latch.passing, metrics: ServerMetrics(factory: arrivals))
        }

        /// All devices push while a first request holds the store; then `damage` runs, and they
        /// continue.
        func pushAll(_ damage: () -> Void) async throws -> [Result<[UInt8], any Error>] {
            latch.close()
            let first = Task { try await store.sync(zone: "main", body: Array(Self.pull.utf8)) }
            await latch.somebodyWaits()
            await arrivals.next()
            var tasks: [Task<[UInt8], any Error>] = []
            for number in 1...GroupFaultTests.devices {
                tasks.append(Task { try await push(number) })
                await arrivals.next()
            }
            damage()
            latch.open()
            _ = await first.result
            var results: [Result<[UInt8], any Error>] = []
            for task in tasks { results.append(await task.result) }
            return results
        }

        private static let pull = #"{"maxRevision":0}"#

        func push(_ number: Int) async throws -> [UInt8] {
            let id = "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))"
            let body =
                #"{"maxRevision":0,"device":"d\#(number)","changeSets":[{"id":"\#(id)","notes":"#
                + #"{"create":[-1],"attributes":{"-1":{"text":"text \#(number)"}}}}]}"#
            return try await store.sync(zone: "main", body: Array(body.utf8))
        }

        /// The rows, through another connection; nil if the file is not sound.
        func texts() throws -> [String]? {
            let file = try disk.database("zone.sqlite")
            let texts = try file.read { db -> [String]? in
                guard try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"] else { return nil }
                return try String.fetchAll(db, sql: "SELECT text FROM notes ORDER BY id")
            }
            try file.close()
            return texts
        }
    }

    /// The step between failing calls; with `TIDEMARK_STORAGE_STRIDE=1` every call fails once.
    private static let stride = Effort.count("TIDEMARK_STORAGE_STRIDE", short: 23, long: 23)

    private static let all = (1...devices).map { "text \($0)" }

    @Test func `case 6: on a full disk every request of the group gets the error and has no effect`() async throws {
        let bench = try Bench()
        let results = try await bench.pushAll { bench.disk.fail(.full, call: 1, of: .growing, onwards: true) }
        for result in results {
            let error = #expect(throws: TidemarkError.self) { try result.get() }
            #expect(error?.code == .storageFailed)
            #expect(error?.recovery == .retry)
        }
        bench.disk.heal()
        #expect(try bench.texts() == [])
        #expect(try await bench.store.state().revision == 0)
        for number in 1...Self.devices { _ = try await bench.push(number) }
        #expect(try bench.texts() == Self.all)
        #expect(try await bench.store.state().revision == Int64(Self.devices))
    }

    @Test func `the readiness probe reports a failing disk, and its recovery`() async throws {
        let bench = try Bench()
        try await bench.store.probe()
        bench.disk.fail(.io, call: 1, onwards: true)
        let error = await #expect(throws: TidemarkError.self) { try await bench.store.probe() }
        #expect(error?.code == .storageFailed)
        bench.disk.heal()
        try await bench.store.probe()
    }

    @Test(arguments: [FaultVolume.Fault.io, .power])
    func `cases 3 4 6: if any disk call fails, acknowledged requests are committed exactly once`(
        fault: FaultVolume.Fault
    )
        async throws
    {
        var answered = 0
        var failed = 0
        for call in Swift.stride(from: 1, to: 2_000, by: Self.stride) {
            let bench = try Bench()
            let results = try await bench.pushAll { bench.disk.fail(fault, call: call) }
            let isOver = bench.disk.failureCount == 0
            let files = fault == .power ? crashed(bench.disk, call) : nil
            bench.disk.heal()
            let after = try files.map { try Bench($0) } ?? bench
            let texts = try #require(try after.texts(), "call \(call)")
            for (number, result) in zip(1..., results) {
                guard case .success = result else {
                    failed += 1
                    continue
                }
                answered += 1
                #expect(texts.contains("text \(number)"), "call \(call)")
            }
            // The group is one transaction: it is committed whole, or not at all.
            #expect(texts.isEmpty || texts == Self.all, "call \(call): \(texts)")
            for number in 1...Self.devices { _ = try await after.push(number) }
            #expect(try after.texts() == Self.all, "call \(call)")
            if isOver { break }
        }
        #expect(answered > 0)
        #expect(failed > 0)
    }

    /// The files after a power cut.
    private func crashed(_ disk: FaultVolume, _ call: Int) -> [String: [UInt8]] {
        disk.crash(seed: UInt64(call))
        return Dictionary(uniqueKeysWithValues: disk.files.map { ($0, disk.contents(of: $0) ?? []) })
    }
}
