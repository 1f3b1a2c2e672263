import Foundation
import Testing

/// A program independent of this package, run as a real process.
struct ForeignProgram: Sendable {
    let executable: URL

    /// The program's output and exit status.
    struct Outcome: Sendable {
        let output: String
        let errors: String
        let status: Int32
    }

    /// Looks a program up in PATH.
    init?(_ name: String) {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let match = path.split(separator: ":").map { "\($0)/\(name)" }.first(
            where: FileManager.default.isExecutableFile)
        guard let match else { return nil }
        executable = URL(fileURLWithPath: match)
    }

    /// Runs the program to its end.
    func run(_ arguments: [String]) async throws -> Outcome {
        let process = Process()
        let output = Pipe()
        let errors = Pipe()
        process.executableURL = executable
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let id = process.processIdentifier
        let status = await withCheckedContinuation { ended in
            Thread.detachNewThread { ended.resume(returning: Self.status(of: id)) }
        }
        if status == nil { process.waitUntilExit() }
        return Outcome(
            output: try Self.text(of: output), errors: try Self.text(of: errors),
            status: status ?? process.terminationStatus)
    }

    /// Waits for a process on a thread that may block; Foundation collects the process.
    ///
    /// Nil if Foundation has collected it before.
    private static func status(of id: Int32) -> Int32? {
        var info = siginfo_t()
        while waitid(P_PID, id_t(id), &info, WEXITED | WNOWAIT) != 0 { guard errno == EINTR else { return nil } }
        #if os(Linux)
        return info._sifields._sigchld.si_status
        #else
        return info.si_status
        #endif
    }

    private static func text(of pipe: Pipe) throws -> String {
        String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    }
}

/// The `sqlite3` shell.
enum SQLiteShell {
    /// Runs SQL on a file and expects success.
    static func run(_ sql: String, on path: String) async throws {
        let outcome = try await attempt(sql, on: path)
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    /// Runs SQL on a file.
    static func attempt(_ sql: String, on path: String) async throws -> ForeignProgram.Outcome {
        let shell = try #require(ForeignProgram("sqlite3"), "sqlite3 is not in PATH")
        return try await shell.run(["-batch", "-bail", path, sql])
    }
}

/// A Python interpreter with its own `sqlite3` module.
enum Python {
    static let interpreter = ForeignProgram("python3")

    /// Runs a script whose `db` is an open connection to the file, and commits.
    static func run(_ script: String, on path: String) async throws {
        let frame = """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1])
            \(script)
            db.commit()
            """
        let outcome = try await #require(interpreter).run(["-c", frame, path])
        #expect(outcome.status == 0, "\(outcome.errors)")
    }
}
