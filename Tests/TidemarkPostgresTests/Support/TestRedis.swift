import Foundation
import Testing
import TidemarkRedis

/// A Redis of one test's own, which ends with it.
final class TestRedis: Sendable {
    /// Its address.
    let address: String
    private let folder: URL
    private let queue = DispatchQueue(label: "test redis")
    private static let script = URL(filePath: #filePath).appending(path: "../../../../Scripts/redis.sh").standardized
        .path

    init() async throws {
        let services = ProcessInfo.processInfo.environment["TIDEMARK_SERVICES"]
        let home = services.map { URL(filePath: $0) } ?? FileManager.default.temporaryDirectory
        folder = home.appending(path: "redis-\(UUID())")
        let output = try await Self.run([Self.script, "start", folder.path], on: queue)
        address = output.trimmingCharacters(in: .whitespacesAndNewlines)
        try #require(address.hasPrefix("redis://"), "\(output)")
    }

    deinit {
        do {
            _ = try Self.runNow([Self.script, "stop", folder.path])
            try FileManager.default.removeItem(at: folder)
        } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// Runs a command.
    @discardableResult func command(_ words: String...) async throws -> RedisConnection.Reply {
        let address = try RedisAddress(address)
        return try await withCheckedThrowingContinuation { continuation in
            queue.async {
                continuation.resume(with: Result { try RedisConnection(address, milliseconds: 10_000).run(words) })
            }
        }
    }

    /// Pauses it: connections stay open, without answers.
    func pause() throws { kill(try pid(), SIGSTOP) }

    /// Resumes it.
    func goOn() throws { kill(try pid(), SIGCONT) }

    /// Waits until there are this many keys.
    func untilItHas(_ count: Int) async throws {
        while try await command("DBSIZE") != .integer(Int64(count)) { await Task.yield() }
    }

    /// The keys of change sets, by revision.
    func keys() async throws -> [String] {
        guard case .array(let replies) = try await command("KEYS", "tidemark:*") else { return [] }
        return replies.compactMap { reply in
            guard case .bytes(let bytes) = reply else { return nil }
            return String(decoding: bytes, as: UTF8.self)
        }.sorted { Self.revision($0) < Self.revision($1) }
    }

    private static func revision(_ key: String) -> Int { Int(key.split(separator: ":").last ?? "") ?? 0 }

    private func pid() throws -> pid_t {
        let text = try String(contentsOf: folder.appending(path: "pid"), encoding: .utf8)
        return try #require(pid_t(text.trimmingCharacters(in: .whitespacesAndNewlines)))
    }

    private static func run(_ words: [String], on queue: DispatchQueue) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try runNow(words) }) }
        }
    }

    private static func runNow(_ words: [String]) throws -> String {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(filePath: words[0])
        process.arguments = Array(words.dropFirst())
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self)
    }
}
