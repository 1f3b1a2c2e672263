import Foundation
import NIOCore
import Testing
import TidemarkCore
import TidemarkServer
import TidemarkSQL
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// The operator's view: metrics, readiness, the log.
@Suite struct OperationTests {
    private static let pull = #"{"maxRevision":0}"#

    private static func post(_ server: TestServer, _ path: String, _ text: String) async throws -> TestServer.Answer {
        try await server.send(.POST, path, body: .bytes(ByteBuffer(string: text)))
    }

    @Test func `requests are counted by route and status, not by zone or unknown path`() async throws {
        let service = ScriptedService { zone, body in
            guard zone != "none" else { throw TidemarkError(.unknownZone, "No zone.", fix: "Name another.") }
            return body
        }
        try await TestServer.run(service) { server in
            for zone in 0..<20 { _ = try await Self.post(server, "/zones/z\(zone)/sync", "{}") }
            _ = try await Self.post(server, "/sync", "{}")
            _ = try await Self.post(server, "/zones/none/sync", "{}")
            for path in 0..<5 { _ = try await server.send(.GET, "/nowhere/\(path)") }
            let answer = try await server.send(.GET, "/metrics")
            #expect(answer.status == 200)
            #expect(answer.headers.first(name: "Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
            let page = try PrometheusPage(answer.text)
            let counts = page.samples.filter { $0.name == "tidemark_request_duration_seconds_count" }
            let byRoute = counts.map { "\($0.labels["route"] ?? "") \($0.labels["status"] ?? "") \(Int($0.value))" }
            #expect(
                byRoute.sorted() == [
                    "/sync 200 1", "/zones/{zone}/sync 200 20", "/zones/{zone}/sync 404 1", "unknown 404 5",
                ]
            )
            #expect(page.value("tidemark_refusals_total", ["code": "unknownZone"]) == 1)
            #expect(page.value("tidemark_refusals_total", ["code": "unknownPath"]) == 5)
            // The metrics request itself is in flight.
            #expect(page.value("tidemark_requests_in_flight") == 1)
        }
    }

    @Test func `the metrics tell memory, start, data and disk as they are at each look`() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-machine-\(UUID())")
        let zones = folder.appending(path: "zones")
        try FileManager.default.createDirectory(at: zones, withIntermediateDirectories: true)
        let file = folder.appending(path: "main.sqlite")
        try Data(count: 1_000).write(to: file)
        try Data(count: 200).write(to: folder.appending(path: "main.sqlite-wal"))
        try Data(count: 9_000).write(to: folder.appending(path: "a-file-of-somebody-else"))
        let metrics = MachineMetrics(PrometheusRegistry(), started: 1_795_777_842_500, files: [file.path, zones.path])
        let first = try PrometheusPage(metrics.text())
        #expect(first.value("process_start_time_seconds") == 1_795_777_842.5)
        #expect(first.value("tidemark_data_bytes") == 1_200)
        #expect(first.value("tidemark_wal_bytes") == 200)
        let size = try #require(first.value("tidemark_disk_size_bytes"))
        let free = try #require(first.value("tidemark_disk_free_bytes"))
        #expect(0 < free && free <= size)
        #if os(Linux)
        let memory = try #require(first.value("process_resident_memory_bytes"))
        #expect(memory > 1_000_000)
        #endif
        try Data(count: 30).write(to: zones.appending(path: "z_a.sqlite"))
        #expect(try PrometheusPage(metrics.text()).value("tidemark_data_bytes") == 1_230)
        try FileManager.default.removeItem(at: folder)
    }

    @Test func `a log line is a message with metadata: request, client and result`() async throws {
        let service = ScriptedService { _, _ in Array(#"{"secret":"hunter2"}"#.utf8) }
        try await TestServer.run(service) { server in
            _ = try await Self.post(server, "/zones/team%0Aforged/sync?token=hunter2", "hunter2")
            let line = try #require(server.log.all.first { $0.contains("route=/zones/") })
            #expect(line.hasPrefix("info: answered bytes=21 method=POST milliseconds="))
            #expect(line.hasSuffix(" received=7 route=/zones/{zone}/sync status=200 zone=team%0Aforged"))
            #expect(!server.log.all.joined().contains("hunter2"))
        }
    }

    @Test func `readyz says why the store does not answer, while healthz succeeds`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            #expect(try await server.send(.GET, "/readyz").text == "ready\n")
            service.fail(TidemarkError(.storageFailed, "The disk is gone.", fix: "Mount it."))
            let answer = try await server.send(.GET, "/readyz")
            #expect(answer.status == 503)
            #expect(answer.headers.first(name: "Retry-After") != nil)
            #expect(try answer.error.message == "The store does not answer: The disk is gone.")
            #expect(try await server.send(.GET, "/healthz").status == 200)
            struct Defect: Error { let password = "hunter2" }
            service.fail(Defect())
            let defect = try await server.send(.GET, "/readyz")
            #expect(defect.status == 503)
            #expect(!defect.text.contains("hunter2"))
            service.fail(nil)
            #expect(try await server.send(.GET, "/readyz").status == 200)
        }
    }

    @Test func `a stalled store is reported in bounded time, by one probe for all requests`() async throws {
        let service = ScriptedService()
        let clock = StoppedClock()
        try await TestServer.run(service, clock: clock) { server in
            service.stall()
            async let first = server.send(.GET, "/readyz")
            await clock.untilSomebodySleeps()
            clock.advance(by: .seconds(3))
            let answer = try await first
            #expect(answer.status == 503)
            #expect(try answer.error.message == "The store does not answer: It has not answered for 3 s.")
            // No request waits for the late probe, and no second probe starts.
            for _ in 0..<20 { #expect(try await server.send(.GET, "/readyz").status == 503) }
            #expect(service.probes == 1)
            service.goOn()
            while try await server.send(.GET, "/readyz").status != 200 { await Task.yield() }
            #expect(service.probes == 2)
        }
    }

    @Test func `D2: a listener is counted until it disconnects`() throws {
        let registry = PrometheusRegistry()
        let fanOut = FanOut(metrics: ServerMetrics(factory: registry))
        func count() throws -> Double? { try PrometheusPage(registry.text()).value("tidemark_listeners") }
        var listeners = try (0..<3).map { _ in try fanOut.listen(to: "main") }
        #expect(try count() == 3)
        listeners.removeLast(2)
        #expect(try count() == 1)
        listeners = []
        #expect(try count() == 0)
    }

    // MARK: Group commit

    @Test func `fifty concurrent pushes take far fewer commits than requests, all correct`() async throws {
        let bench = try GroupBench()
        try await TestServer.run(bench.store, registry: bench.registry) { server in
            bench.latch.close()
            let answers = try await withThrowingTaskGroup(
                of: (Int, TestServer.Answer).self, returning: [Int: TestServer.Answer].self
            ) { tasks in
                for number in 1...50 {
                    tasks.addTask { (number, try await Self.post(server, "/sync", GroupBench.push(number))) }
                }
                // All but the malformed one are with the store before it continues.
                while try await server.page().value("tidemark_requests_waiting") != 49 { await Task.yield() }
                bench.latch.open()
                return try await tasks.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
            // One of the pushes is not JSON, and one has a value that a CHECK refuses.
            let statuses: [Int] = answers.sorted { $0.key < $1.key }.map(\.value.status)
            #expect(statuses.filter { $0 == 200 }.count == 48)
            #expect(statuses[16] == 400)
            #expect(statuses[32] == 422)
            let page = try await server.page()
            #expect(page.value("tidemark_pushes_total") == 48)
            #expect(page.value("tidemark_group_size_requests_sum") == 49)
            let commits = try #require(page.value("tidemark_group_size_requests_count"))
            #expect(commits < 10, "50 requests took \(commits) transactions")
            #expect(page.value("tidemark_commit_duration_seconds_count") == commits)
            #expect(page.value("tidemark_refusals_total", ["code": "constraintViolated"]) == 1)
            #expect(page.value("tidemark_lag_revisions_count") == 48)
            #expect(page.value("tidemark_requests_waiting") == 0)
        }
        #expect(try await bench.store.state().revision == 49)
    }

    @Test func `F5: a catch-up is answered from memory, for any number of revisions`() async throws {
        let bench = try GroupBench()
        try await TestServer.run(bench.store, registry: bench.registry) { server in
            for number in 1...10 { _ = try await Self.post(server, "/sync", GroupBench.push(number)) }
            func pull(_ revision: Int) async throws {
                let body = #"{"maxRevision":\#(revision),"device":"x","settled":true}"#
                #expect(try await Self.post(server, "/sync", body).status == 200)
            }
            // The rows from before are revision 1, which has no change set.
            try await pull(2)
            let before = try await server.page()
            let commits = "tidemark_group_size_requests_count"
            for revision in 2...11 { try await pull(revision) }
            let after = try await server.page()
            let hits = "tidemark_cache_hits_total"
            let misses = "tidemark_cache_misses_total"
            #expect((after.value(hits) ?? 0) - (before.value(hits) ?? 0) == 10)
            #expect(after.value(misses) == before.value(misses))
            #expect(after.value(commits) == before.value(commits))
        }
    }

    @Test func `F5: a conditional GET is answered from memory, without a transaction`() async throws {
        let bench = try GroupBench()
        try await TestServer.run(bench.store, registry: bench.registry) { server in
            _ = try await Self.post(server, "/sync", GroupBench.push(1))
            let answer = try await Self.post(server, "/sync", #"{"maxRevision":2}"#)
            let end = try JSONDecoder().decode(End.self, from: Data(answer.body))
            let tag = ZoneTag(
                epoch: end.epoch, schema: end.schema, revision: end.maxRevision, fingerprint: end.fingerprint)
            let before = try await server.page()
            for _ in 1...10 {
                let news = try await server.send(.GET, "/sync?device=x", headers: ["If-None-Match": tag.entityTag])
                #expect(news.status == 304)
            }
            let after = try await server.page()
            func grown(_ name: String) -> Double { (after.value(name) ?? 0) - (before.value(name) ?? 0) }
            #expect(grown("tidemark_cache_hits_total") == 10)
            #expect(grown("tidemark_cache_misses_total") == 0)
            #expect(grown("tidemark_group_size_requests_count") == 0)
            let labels = ["route": "/sync", "status": "304"]
            #expect(after.value("tidemark_request_duration_seconds_count", labels) == 10)
        }
    }

    /// The revision that an answer leads to.
    private struct End: Decodable {
        let maxRevision: Int64
        let epoch: String
        let schema: String
        let fingerprint: Fingerprint
    }

    @Test func `pushes, conflicts and retries have separate counters`() async throws {
        let bench = try GroupBench()
        try await TestServer.run(bench.store, registry: bench.registry) { server in
            for _ in 0..<3 { _ = try await Self.post(server, "/sync", GroupBench.push(1)) }
            _ = try await Self.post(server, "/sync", GroupBench.push(2, text: "text 1"))
            let page = try await server.page()
            #expect(page.value("tidemark_pushes_total") == 1)
            #expect(page.value("tidemark_repeats_total") == 2)
            #expect(page.value("tidemark_conflicts_total") == 1)
            // At revision 1, the common one; the retries and the conflict are 1 behind.
            #expect(page.value("tidemark_lag_revisions_bucket", ["le": "0"]) == 1)
            #expect(page.value("tidemark_lag_revisions_bucket", ["le": "1"]) == 4)
        }
    }
}

/// A zone with transactions that a test can block.
private final class GroupBench: Sendable {
    let latch = Latch()
    let registry = PrometheusRegistry()
    let store: EmbeddedStore
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        store = try EmbeddedStore(
            path: folder.appending(path: "zone.sqlite").path,
            schemaSQL: """
                CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE CHECK (text <> ''));
                INSERT INTO notes VALUES (1, 'first');
                """,
            newEpoch: UUID(),
            now: latch.passing,
            metrics: ServerMetrics(factory: registry)
        )
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// The request of the device with a number; two of fifty are invalid.
    static func push(_ number: Int, text: String? = nil) -> String {
        guard number != 17 else { return "no JSON at all" }
        let text = text ?? (number == 33 ? "" : "text \(number)")
        let id = "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))"
        return #"{"maxRevision":1,"device":"d\#(number)","changeSets":[{"id":"\#(id)","notes":"#
            + #"{"create":[-1],"attributes":{"-1":{"text":"\#(text)"}}}}]}"#
    }
}

extension TestServer {
    /// The current answer of `GET /metrics`.
    func page() async throws -> PrometheusPage { try PrometheusPage(try await send(.GET, "/metrics").text) }
}
