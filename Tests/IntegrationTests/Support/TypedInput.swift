import Foundation

/// A real process on a terminal of its own, at which the test types.
struct TypedInput {
    /// What the process wrote to the terminal, and its exit code.
    struct Result {
        let status: Int32
        let output: String
        let errors: String
        /// The characters that the terminal showed by itself, because a person typed them.
        let echo: String
    }

    /// Runs a program, and types a line when it has written the prompt to standard error.
    static func run(
        _ program: String, _ arguments: [String], environment: [String: String], typing line: String, at prompt: String
    ) async throws -> Result {
        let (terminal, name) = try openTerminal()
        let master = FileHandle(fileDescriptor: terminal, closeOnDealloc: true)
        let slave = FileHandle(fileDescriptor: open(name, O_RDWR | O_NOCTTY), closeOnDealloc: true)
        let output = Pipe()
        let errors = Pipe()
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardInput = slave
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        return try await Task.detached {
            var text = ""
            while !text.contains(prompt) {
                let piece = errors.fileHandleForReading.availableData
                guard !piece.isEmpty else { break }
                text += String(decoding: piece, as: UTF8.self)
            }
            try master.write(contentsOf: Data((line + "\n").utf8))
            text += String(decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            let lines = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            _ = fcntl(terminal, F_SETFL, O_NONBLOCK)
            var bytes = [UInt8](repeating: 0, count: 4_096)
            let count = max(0, read(terminal, &bytes, bytes.count))
            return Result(
                status: process.terminationStatus, output: lines, errors: text,
                echo: String(decoding: bytes.prefix(count), as: UTF8.self))
        }.value
    }

    /// Opens a new terminal, and returns its descriptor and the name of the side of its programs.
    private static func openTerminal() throws -> (terminal: Int32, name: String) {
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        guard terminal >= 0 else { throw POSIXError(.ENODEV) }
        #if os(Linux)
        // Glibc declares the functions for it only to programs that ask for X/Open.
        let unlock: UInt = 0x4004_5431
        let number: UInt = 0x8004_5430
        var value: Int32 = 0
        guard ioctl(terminal, unlock, &value) == 0, ioctl(terminal, number, &value) == 0 else {
            throw POSIXError(.ENODEV)
        }
        return (terminal, "/dev/pts/\(value)")
        #else
        guard grantpt(terminal) == 0, unlockpt(terminal) == 0, let name = ptsname(terminal) else {
            throw POSIXError(.ENODEV)
        }
        return (terminal, String(cString: name))
        #endif
    }
}
