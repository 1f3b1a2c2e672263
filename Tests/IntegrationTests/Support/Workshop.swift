import Foundation
import Synchronization
import Testing

/// A temporary folder with real files, and the real programs run in it.
///
/// Programs that still run when a test ends are killed, and the folder is removed.
final class Workshop: Sendable {
    let folder: URL
    private let running = Mutex<[Program]>([])
    private let warden: Warden

    init() throws {
        warden = try Warden()
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        for program in running.withLock({ $0 }) { program.signalled(SIGKILL) }
        warden.dismiss()
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// The folder of the programs that were built along with the tests.
    static var programs: URL {
        #if os(macOS)
        let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }
        return (bundle ?? .main).bundleURL.deletingLastPathComponent()
        #else
        return Bundle.main.bundleURL
        #endif
    }

    // MARK: Programs

    /// Starts a program.
    func start(
        _ name: String, _ arguments: [String], environment: [String: String] = [:],
        within limit: Duration = .seconds(300), killedAfter delay: Duration? = nil
    ) throws -> Program {
        let program = try Program(
            name, arguments, in: folder, environment: environment, within: limit, killedAfter: delay)
        try warden.watch(program.id)
        running.withLock { $0 = $0.filter { !$0.isFinished } + [program] }
        return program
    }

    /// Runs a program to its end.
    @discardableResult func run(_ name: String, _ arguments: String...) async throws -> Program.Result {
        try await start(name, arguments).finished()
    }

    /// Runs `tidemark` to its end.
    @discardableResult func tidemark(_ arguments: String...) async throws -> Program.Result {
        try await startTidemark(arguments).finished()
    }

    /// Starts `tidemark`.
    func startTidemark(
        _ arguments: [String], within limit: Duration = .seconds(300), killedAfter delay: Duration? = nil
    ) throws -> Program {
        try start(Self.programs.appending(path: "tidemark").path, arguments, within: limit, killedAfter: delay)
    }

    /// Starts `tidemark-dev`.
    func startTidemarkDev(_ arguments: [String], within limit: Duration = .seconds(300)) throws -> Program {
        try start(Self.programs.appending(path: "tidemark-dev").path, arguments, within: limit)
    }

    /// Runs SQL in a file with the sqlite3 shell, and returns what it prints.
    @discardableResult func sqlite3(_ file: String, _ sql: String) async throws -> String {
        let result = try await run(
            "sqlite3", "-cmd", ".timeout 10000", "-cmd", "PRAGMA foreign_keys = ON", path(file), sql)
        try #require(result.status == 0, "sqlite3 \(file): \(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }

    // MARK: Files

    func path(_ name: String) -> String { folder.appending(path: name).path }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

    @discardableResult func write(_ text: String, to name: String) throws -> String {
        try Data(text.utf8).write(to: folder.appending(path: name))
        return path(name)
    }

    /// The names of the folder's files that contain a text.
    func files(with text: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.contains(text) }.sorted()
    }

    // MARK: The usual

    /// Serves a file on a free port, or on the port that it had before.
    func serve(_ file: String, port: Int = 0, lasting limit: Duration = .seconds(300)) async throws -> Server {
        try await serve(["serve", path(file), "--listen", "127.0.0.1:\(port)"], lasting: limit)
    }

    /// Starts a server and waits until it listens.
    func serve(_ arguments: [String], lasting limit: Duration = .seconds(300)) async throws -> Server {
        let program = try startTidemark(arguments, within: limit)
        let line = try await program.line(with: "listening on http://")
        let port = try #require(line.split(separator: ":").last.flatMap { Int($0) }, "\(line)")
        return Server(program: program, port: port)
    }

    /// Joins devices.
    func join(_ server: Server, _ files: String...) async throws {
        for file in files {
            let joined = try await tidemark("device", "join", server.url, path(file))
            try #require(joined.status == 0, "\(joined.errors)")
        }
    }

    /// Syncs devices; each must end without a conflict.
    func sync(_ files: String...) async throws {
        for file in files {
            let synced = try await tidemark("device", "sync", path(file))
            #expect(synced.status == 0, "\(file): \(synced.output)\(synced.errors)")
        }
    }

    /// The content hash that `tidemark digest` prints for a file or a server.
    func digest(_ source: String) async throws -> String {
        let result = try await tidemark("digest", source.contains("://") ? source : path(source))
        try #require(result.status == 0, "\(source): \(result.errors)")
        return try #require(result.output.split(separator: " ").last?.trimmingCharacters(in: .newlines))
    }

    /// Checks that a file is sound, and that it and others have the server's rows.
    func expectEqual(_ server: Server, _ files: String...) async throws {
        let truth = try await digest(server.url)
        for file in files {
            #expect(try await digest(file) == truth, "\(file)")
            #expect(try await sqlite3(file, "PRAGMA integrity_check") == "ok", "\(file)")
            #expect(try await sqlite3(file, "PRAGMA foreign_key_check") == "", "\(file)")
        }
    }

    /// The JSON object that a command prints.
    func json(_ arguments: String...) async throws -> [String: Any] {
        let result = try await startTidemark(arguments).finished()
        let parsed = try JSONSerialization.jsonObject(with: Data(result.output.utf8))
        return try #require(parsed as? [String: Any])
    }
}

/// A server that listens.
struct Server: Sendable {
    let program: Program
    let port: Int

    var url: String { "http://127.0.0.1:\(port)" }

    /// Stops it as a service manager does, and checks its exit.
    func stopped() async throws {
        program.signalled(SIGTERM)
        let result = try await program.finished()
        #expect(result.status == 0, "\(result.errors)")
    }
}
