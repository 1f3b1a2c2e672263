import Foundation
import Synchronization

/// A real process: starts it, reads its lines, sends signals and ends it.
///
/// One thread a pipe reads the output and wakes the tests that wait for a line. Every wait is
/// bounded by progress: a process is killed, which ends its lines, once it has neither written nor worked for as long
/// as the limit, or has worked for longer. On a busy machine a slow process has more time, and one that hangs or spins
/// has not.
final class Program: @unchecked Sendable {
    // `init` alone changes the process; all else is locked.

    /// The result of an ended process.
    struct Result {
        /// The exit code; for a process ended by a signal, 128 plus the signal's number.
        let status: Int32
        let output: String
        let errors: String
    }

    /// A line that never came.
    struct LineMissing: Error, CustomStringConvertible {
        let text: String
        let output: String

        var description: String { "no line with \"\(text)\"; the process said: \(output)" }
    }

    private struct State {
        var lines: [String] = []
        /// The number of lines that were consumed or skipped.
        var consumed = 0
        var errors: [String] = []
        /// The running parts: the process and the two pipes.
        var open = 3
        var status: Int32?
        /// Counts the changes, so that no wait misses a change made since its last look.
        var changes = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let process = Process()
    private let input = Pipe()
    private let state = Mutex(State())
    private let limit: Duration
    private let killTime: ContinuousClock.Instant?
    let name: String

    /// Starts a program, found in PATH unless its name is a path.
    ///
    /// `limit` is the longest time without output or processor time, and the most processor time. After `delay` the
    /// process is killed in any case.
    init(
        _ name: String, _ arguments: [String], in folder: URL, environment: [String: String] = [:],
        within limit: Duration = .seconds(300), killedAfter delay: Duration? = nil
    ) throws {
        // A write to an ended process must not end the tests.
        signal(SIGPIPE, SIG_IGN)
        self.name = name
        self.limit = limit
        killTime = delay.map { .now + $0 }
        let output = Pipe()
        let errors = Pipe()
        process.executableURL = URL(filePath: name.hasPrefix("/") ? name : "/usr/bin/env")
        process.arguments = name.hasPrefix("/") ? arguments : [name] + arguments
        process.currentDirectoryURL = folder
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        process.terminationHandler = { [weak self] process in
            let isSignal = process.terminationReason == .uncaughtSignal
            self?.ended(process.terminationStatus, bySignal: isSignal)
        }
        try process.run()
        read(output, thenWaits: true) { $0.lines.append($1) }
        read(errors, thenWaits: false) { $0.errors.append($1) }
    }

    /// The process id.
    var id: Int32 { process.processIdentifier }

    /// Whether process and pipes have ended.
    var isFinished: Bool { state.withLock { $0.open == 0 } }

    // MARK: Talking

    /// Writes a line to the process's input.
    func send(_ line: String) throws { try input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

    /// The next line of the output that contains a text; lines before it are passed over.
    func line(with text: String) async throws -> String {
        while true {
            let (match, isOver, seen) = state.withLock { state -> (String?, Bool, Int) in
                let rest = state.lines[state.consumed...]
                guard let index = rest.firstIndex(where: { $0.contains(text) }) else {
                    return (nil, state.open == 0, state.changes)
                }
                state.consumed = index + 1
                return (state.lines[index], false, state.changes)
            }
            if let match { return match }
            guard !isOver else {
                let output = state.withLock { $0.lines + $0.errors }.joined(separator: "\n")
                throw LineMissing(text: text, output: output)
            }
            await change(since: seen)
        }
    }

    /// Sends a signal.
    func signalled(_ signal: Int32) { if !isFinished { kill(process.processIdentifier, signal) } }

    /// Waits until the process has ended and all its output was read.
    @discardableResult func finished() async throws -> Result {
        try input.fileHandleForWriting.close()
        while true {
            let (result, seen) = state.withLock { state -> (Result?, Int) in
                guard state.open == 0 else { return (nil, state.changes) }
                let result = Result(
                    status: state.status ?? -1, output: state.lines.map { $0 + "\n" }.joined(),
                    errors: state.errors.map { $0 + "\n" }.joined())
                return (result, state.changes)
            }
            if let result { return result }
            await change(since: seen)
        }
    }

    /// Kills the process at once.
    func killed() async throws {
        signalled(SIGKILL)
        try await finished()
    }

    // MARK: Listening

    private func change(_ body: (inout State) -> Void) {
        let waiting = state.withLock { state in
            body(&state)
            state.changes += 1
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Returns after a line or an end that followed this many changes.
    private func change(since seen: Int) async {
        await withCheckedContinuation { continuation in
            let isNews = state.withLock { state in
                let isNews = state.changes != seen
                if !isNews { state.waiting.append(continuation) }
                return isNews
            }
            if isNews { continuation.resume() }
        }
    }

    /// Reads a pipe to its end on a thread of its own, and kills the process at the deadline.
    private func read(_ pipe: Pipe, thenWaits: Bool, _ take: @escaping @Sendable (inout State, String) -> Void) {
        Thread.detachNewThread { [self] in
            let descriptor = pipe.fileHandleForReading.fileDescriptor
            var rest = [UInt8]()
            var block = [UInt8](repeating: 0, count: 65_536)
            while waitUntilReadable(descriptor) {
                let count = Foundation.read(descriptor, &block, block.count)
                guard count > 0 else { break }
                rest += block.prefix(count)
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    let line = String(decoding: rest[..<end], as: UTF8.self)
                    rest.removeSubrange(...end)
                    change { take(&$0, line) }
                }
            }
            let last = rest.isEmpty ? nil : String(decoding: rest, as: UTF8.self)
            change { state in
                if let last { take(&state, last) }
                state.open -= 1
            }
            do { try pipe.fileHandleForReading.close() } catch { return }
            if thenWaits { waitForEnd() }
        }
    }

    /// Records the end of the process, which two sides may report.
    private func ended(_ status: Int32, bySignal isSignal: Bool) {
        change { state in
            guard state.status == nil else { return }
            state.status = isSignal ? 128 + status : status
            state.open -= 1
        }
    }

    /// Waits for the end of a process that has closed its output.
    ///
    /// Foundation watches its children through `select`, and in a process with more than a thousand
    /// open files it has been seen to miss one. The child is left for Foundation to collect.
    private func waitForEnd() {
        var info = siginfo_t()
        while waitid(P_PID, id_t(process.processIdentifier), &info, WEXITED | WNOWAIT) != 0 {
            guard errno == EINTR else { return }
        }
        #if os(Linux)
        let status = info._sifields._sigchld.si_status
        #else
        let status = info.si_status
        #endif
        ended(status, bySignal: info.si_code != CLD_EXITED)
    }

    /// Whether there is something to read, or the end; false when the process was killed for its limit.
    private func waitUntilReadable(_ descriptor: Int32) -> Bool {
        var idle = Duration.zero
        var work = ProcessWork.time(of: id)
        while idle < limit, work ?? .zero < limit {
            let pause = killTime.map { max($0 - .now, .zero) } ?? min(limit, .seconds(10))
            var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if Foundation.poll(&poll, 1, Int32(pause / .milliseconds(1))) > 0 { return true }
            guard killTime == nil else { break }
            let now = ProcessWork.time(of: id)
            idle = now == work ? idle + pause : .zero
            work = now
        }
        kill(process.processIdentifier, SIGKILL)
        return false
    }
}

/// The processor time of processes.
enum ProcessWork {
    private static let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))

    /// The processor time of a process and its descendants; nil where the system does not say it in a file.
    static func time(of id: Int32) -> Duration? {
        guard let stat = text("/proc/\(id)/stat"), let end = stat.lastIndex(of: ")") else { return nil }
        // From the third field on: its name may have spaces.
        let fields = stat[stat.index(after: end)...].split(separator: " ").dropFirst(11).prefix(4)
        let own = Duration.seconds(fields.compactMap { Double($0) }.reduce(0, +) / ticksPerSecond)
        let children = text("/proc/\(id)/task/\(id)/children")?.split(separator: " ").compactMap { Int32($0) } ?? []
        return children.reduce(own) { $0 + (time(of: $1) ?? .zero) }
    }

    private static func text(_ path: String) -> String? {
        // A process may end at any moment, and then has no files.
        try? String(contentsOfFile: path, encoding: .utf8)
    }
}
