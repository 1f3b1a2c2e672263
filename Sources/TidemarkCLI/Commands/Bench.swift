import ArgumentParser
import Foundation
import Logging
import Synchronization
import Tidemark
import TidemarkCore
import TidemarkHTTP
import TidemarkSQLiteStore
import TidemarkServer

/// `tidemark bench`: how many pushes a second this machine takes.
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure how many change sets a second a server on this machine commits.",
        discussion: """
            Serves an empty zone of its own in a new folder, over real HTTP on the loopback interface, and lets clients push \
            one small change set after another, each in a request of its own that is flushed to the disk before its answer. \
            The clients share the machine with the server. With --group 1 no two requests share a transaction.

              tidemark bench --clients 1 --clients 50
              tidemark bench --clients 50 --group 1
            """
    )

    @Option(help: "How many push at a time; may be repeated.")
    var clients: [Int] = [1, 50]

    @Option(help: "How long each measurement takes, in seconds.")
    var seconds = 5.0

    @Option(help: "The most requests that share one transaction.")
    var group = Limits.standard.groupRequestsMax

    @Option(help: "The folder for the zone's file; the system's temporary folder if not given.")
    var data: String?

    func validate() throws {
        guard clients.allSatisfy({ (1...2_000).contains($0) }), group >= 1,
            (0.1...3_600).contains(seconds)
        else {
            throw ValidationError(
                "--clients goes from 1 to 2000, --group from 1, --seconds from 0.1 to 3600."
            )
        }
    }

    func run() async throws {
        try await Terminal.run {
            var rows = [
                ["clients", "pushes/s", "commits/s", "pushes a commit", "median ms", "99 % ms"]
            ]
            for count in clients { rows.append(try await measure(clients: count)) }
            Terminal.table(rows, right: Set(0..<6))
        }
    }

    /// Serves a new zone, lets clients push into it, and says what came of it.
    private func measure(clients: Int) async throws -> [String] {
        let folder = URL(filePath: data ?? FileManager.default.temporaryDirectory.path)
            .appending(
                path: "tidemark-bench-\(clients)-\(ProcessInfo.processInfo.processIdentifier)"
            )
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer {
            do {
                try FileManager.default.removeItem(at: folder)
            } catch {
                Terminal.note("tidemark: \(folder.path) cannot be removed: \(error)")
            }
        }
        let registry = PrometheusRegistry()
        var limits = Limits.standard
        limits.groupRequestsMax = group
        let store = try EmbeddedStore(
            path: folder.appending(path: "zone.sqlite").path,
            schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
            newEpoch: UUID(),
            limits: limits,
            metrics: ServerMetrics(factory: registry)
        )
        let application = TidemarkServerApplication(
            service: store,
            port: 0,
            logger: Logger(label: "tidemark.bench") { _ in SwiftLogNoOpLogHandler() }
        )
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let server = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { listening.yield($0) }
        }
        var row: [String] = []
        for await port in ports {
            let load = PushLoad(url: "http://127.0.0.1:\(port)", duration: .seconds(seconds))
            let times = try await load.run(clients: clients)
            let commits = Self.number("tidemark_group_size_requests_count", in: registry.text())
            row = Self.row(clients: clients, times: times, commits: commits, seconds: seconds)
            break
        }
        server.cancel()
        _ = await server.result
        try await store.close()
        return row
    }

    private static func row(
        clients: Int,
        times: [Duration],
        commits: Double,
        seconds: Double
    ) -> [String] {
        let sorted = times.sorted()
        func milliseconds(_ part: Double) -> String {
            guard !sorted.isEmpty else { return "-" }
            let time = sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
            return String(format: "%.1f", time / .milliseconds(1))
        }
        return [
            "\(clients)", "\(Int(Double(times.count) / seconds))", "\(Int(commits / seconds))",
            String(format: "%.1f", Double(times.count) / max(commits, 1)), milliseconds(0.5),
            milliseconds(0.99),
        ]
    }

    /// The value of a sample without labels.
    private static func number(_ name: String, in page: String) -> Double {
        page.split(separator: "\n").first { $0.hasPrefix(name + " ") }
            .flatMap { Double($0.dropFirst(name.count + 1)) } ?? 0
    }
}

/// Clients that push as fast as they are answered.
private struct PushLoad {
    let url: String
    let duration: Duration

    /// Pushes for the duration, and returns how long each push took.
    func run(clients: Int) async throws -> [Duration] {
        let transport = try HTTPTransport(url: url)
        return try await withThrowingTaskGroup(of: [Duration].self) { tasks in
            for client in 1...clients {
                tasks.addTask { try await push(client, over: transport) }
            }
            return try await tasks.reduce(into: []) { $0 += $1 }
        }
    }

    private func push(_ client: Int, over transport: HTTPTransport) async throws -> [Duration] {
        let clock = ContinuousClock()
        let end = clock.now + duration
        var (times, revision) = ([Duration](), Int64(0))
        while clock.now < end {
            let id = String(format: "%08x-0000-4000-8000-%012x", client, times.count)
            // At most one revision of the others', so that the answers stay small.
            let body =
                #"{"maxRevision":\#(revision),"limit":1,"device":"\#(client)","changeSets":[{"id":"\#(id)","#
                + #""note":{"create":[-\#(times.count + 1)],"attributes":{"-\#(times.count + 1)":"#
                + #"{"text":"a note of some forty characters or so"}}}}]}"#
            let start = clock.now
            let answer = try await transport.sync(zone: "main", body: Array(body.utf8))
            times.append(clock.now - start)
            let head = try JSONDecoder().decode(Head.self, from: Data(answer))
            revision = head.maxRevision
        }
        return times
    }

    private struct Head: Decodable { let maxRevision: Int64 }
}
