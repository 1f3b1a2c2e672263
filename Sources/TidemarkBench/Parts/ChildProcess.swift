import Foundation
import Synchronization
import TidemarkCore
import TidemarkServer

/// The program `tidemark`, or another one of the same build, as a process of its own.
final class ChildProcess: @unchecked Sendable {
    // Only `init` changes the process; all else is locked, or a stream.

    /// Its output, line by line.
    private let lines: AsyncStream<String>
    private let ends: AsyncStream<Int32>
    private let process = Process()
    private let outputLines = Mutex<[String]>([])
    private let peak = Mutex<Int?>(nil)

    /// Starts it.
    init(_ arguments: [String], of program: String = "tidemark") throws {
        let output = Pipe()
        let (lines, says) = AsyncStream.makeStream(of: String.self)
        let (ends, ended) = AsyncStream.makeStream(of: Int32.self)
        self.lines = lines
        self.ends = ends
        process.executableURL = try Self.url(of: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let number = process.processIdentifier
        Thread.detachNewThread { [weak self] in
            Self.read(output.fileHandleForReading) { line in
                self?.outputLines.withLock { $0.append(line) }
                says.yield(line)
            }
            says.finish()
            if let status = Self.wait(for: number) ?? self?.collected() { ended.yield(status) }
            ended.finish()
        }
        Thread.detachNewThread { [weak self] in
            // After its end its memory cannot be read any more.
            while self?.look() != nil { usleep(2_000) }
        }
    }

    deinit { terminate() }

    /// A program of the same build, beside the running one.
    ///
    /// - Throws: A failure with the command that builds it, if it does not exist.
    private static func url(of name: String) throws -> URL {
        guard let own = Bundle.main.executableURL else {
            throw TidemarkError(
                .invalidArgument, "The system does not name the program that runs.", fix: "Start it by its path.")
        }
        let program = own.deletingLastPathComponent().appending(path: name)
        guard FileManager.default.isExecutableFile(atPath: program.path) else {
            throw TidemarkError(
                .invalidArgument, "The benchmark starts servers and devices with \(program.path), which is not there.",
                fix: "Build it: swift build -c release --product \(name).")
        }
        return program
    }

    /// The system's figures of the process.
    var status: ProcessStatus { ProcessStatus(process.processIdentifier) }

    /// The greatest memory at any look, also after its end.
    var peakBytes: Int? { peak.withLock { $0 } }

    /// Waits for a line that contains a text.
    func line(with text: String) async throws -> String {
        for await line in lines where line.contains(text) { return line }
        throw failure("it ended without \"\(text)\"")
    }

    /// The exit status of a run without an answer in time, which may be repeated.
    static let unanswered: Int32 = 4

    /// Waits for its end, which must be a success or a run without an answer.
    ///
    /// - Returns: Whether it was a success.
    @discardableResult func finished(orUnanswered mayBeRunAgain: Bool = false) async throws -> Bool {
        for await status in ends where status != 0 {
            guard mayBeRunAgain, status == Self.unanswered else { throw failure("it ended with \(status)") }
            return false
        }
        return true
    }

    /// Asks it to end.
    func terminate() { if process.isRunning { kill(process.processIdentifier, SIGTERM) } }

    private func failure(_ reason: String) -> TidemarkError {
        TidemarkError(
            .internalFailure, "A process of the benchmark failed: \(reason).",
            fix: "It said: \(outputLines.withLock { $0.joined(separator: " ") })")
    }

    // MARK: Watching

    /// The status of a process that a signal has ended.
    private static let signalled: Int32 = 128

    /// The status that Foundation reports.
    private func collected() -> Int32 {
        while process.isRunning { usleep(1_000) }
        return process.terminationReason == .exit ? process.terminationStatus : Self.signalled
    }

    /// Reads its memory; nil if there is none to read.
    private func look() -> Int? {
        guard let bytes = status.peakBytes else { return nil }
        return peak.withLock { peak in
            peak = max(peak ?? 0, bytes)
            return peak
        }
    }

    private static func read(_ file: FileHandle, _ line: (String) -> Void) {
        var rest = Data()
        while case let block = file.availableData, !block.isEmpty {
            rest += block
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                line(String(decoding: rest[..<end], as: UTF8.self))
                rest = Data(rest[(end + 1)...])
            }
        }
        if !rest.isEmpty { line(String(decoding: rest, as: UTF8.self)) }
    }

    /// Waits for a process, and leaves it for Foundation to collect; nil if Foundation was first.
    ///
    /// Foundation can miss an end if many files are open. A process that a signal has ended is a
    /// failure, whatever its number.
    private static func wait(for process: Int32) -> Int32? {
        var info = siginfo_t()
        while waitid(P_PID, id_t(process), &info, WEXITED | WNOWAIT) != 0 { guard errno == EINTR else { return nil } }
        guard info.si_code == CLD_EXITED else { return signalled }
        #if os(Linux)
        return info._sifields._sigchld.si_status
        #else
        return info.si_status
        #endif
    }
}
