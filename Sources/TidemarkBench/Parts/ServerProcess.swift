import AsyncHTTPClient
import NIOCore
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A server in a process of its own, so that its memory and its processor time are its own.
final class ServerProcess: Sendable {
    /// The process.
    let process: ChildProcess
    /// The folder of all files.
    let folder: BenchFolder
    /// The port on which it listens, and that of the counting relay.
    let (port, countedPort): (Int, Int)
    private let relay: TCPRelay
    private let database: BenchDatabase?

    /// Serves a table with a number of rows.
    convenience init(_ setting: BenchSetting, rows: Int) async throws {
        try await self.init(setting) { try Items.make(rows, at: $0) }
    }

    /// Serves the tables of a file that `make` makes.
    init(_ setting: BenchSetting, make: (_ path: String) throws -> Void) async throws {
        folder = try BenchFolder(in: setting.folder)
        let path = folder.path("zone")
        try make(path)
        database = try setting.postgres.map(BenchDatabase.init(on:))
        let store = database.map { ["--store", $0.address] } ?? []
        process = try ChildProcess(["serve", path, "--listen", "127.0.0.1:0"] + store)
        let line = try await process.line(with: "listening on http://")
        port = line.split(separator: ":").last.flatMap { Int($0) } ?? 0
        relay = TCPRelay(targetPort: port)
        countedPort = try await relay.start()
    }

    /// The server's address.
    func url(_ way: BenchJob.Way = .direct) -> String { "http://127.0.0.1:\(way == .direct ? port : countedPort)" }

    /// The traffic over the counting relay during a job.
    func wire(_ work: () async throws -> Void) async throws -> Sample.Wire {
        let before = relay.traffic
        let requestsBefore = try await requests()
        try await work()
        let now = relay.traffic
        return Sample.Wire(requests: try await requests() - requestsBefore, from: before, to: now)
    }

    /// Loses the next answer that goes over the counting relay.
    func loseAnswer() {
        relay.hangUp()
        relay.follow(RelayPlan([.answerDropped]))
    }

    /// The number of answered requests by its own count, without this one.
    private func requests() async throws -> Int {
        let request = HTTPClientRequest(url: "\(url())/metrics")
        let answer = try await HTTPClient.shared.execute(request, timeout: .seconds(10))
        let page = String(buffer: try await answer.body.collect(upTo: 1 << 20))
        return page.split(separator: "\n").filter { $0.hasPrefix("tidemark_request_duration_seconds_count") }.filter {
            !$0.contains("metrics")
        }.reduce(0) { $0 + ($1.split(separator: " ").last.flatMap { Int($0) } ?? 0) }
    }

    /// Requires that a device's file holds the server's rows.
    func check(_ path: String) async throws {
        let digest = try await HTTPTransport(url: url()).digest(zone: "main")
        try Agreement.require(path, holds: digest)
    }

    /// Ends the server.
    func end() async throws {
        try await relay.stop()
        process.terminate()
        try await process.finished()
        try database?.drop()
    }
}
