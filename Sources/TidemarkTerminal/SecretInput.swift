internal import Foundation
internal import Synchronization
internal import TidemarkCore

/// Reads a secret that a person types, without showing it.
extension Terminal {
    /// Asks for a secret on the terminal, nil without one; throws `CancellationError` after Control-C or a signal.
    package static func secret(_ prompt: String) async throws -> String? {
        guard isatty(STDIN_FILENO) != 0 else { return nil }
        let isCancelled = Mutex(false)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The wait for a person blocks its thread.
                Thread {
                    continuation.resume(with: Result { try read(prompt) { isCancelled.withLock { $0 } } })
                }.start()
            }
        } onCancel: {
            isCancelled.withLock { $0 = true }
        }
    }

    private static let controlC: UInt8 = 3
    private static let controlD: UInt8 = 4
    private static let erasers: Set<UInt8> = [8, 127]
    private static let ends = Set("\r\n".utf8)
    /// The pause between two looks whether a signal has ended the command, in milliseconds.
    private static let lookMilliseconds: Int32 = 200

    private static func read(_ prompt: String, isCancelled: () -> Bool) throws -> String {
        var former = termios()
        guard tcgetattr(STDIN_FILENO, &former) == 0 else { return "" }
        var silent = former
        // Without signals from keys, Control-C arrives as a byte, and the terminal is restored first.
        silent.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent)
        defer {
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &former)
            note("")
        }
        prompting(prompt)
        var text: [UInt8] = []
        while true {
            guard !isCancelled() else { throw CancellationError() }
            var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            guard poll(&input, 1, lookMilliseconds) > 0 else { continue }
            var byte: UInt8 = 0
            guard Foundation.read(STDIN_FILENO, &byte, 1) == 1, byte != controlD, !ends.contains(byte) else { break }
            if byte == controlC { throw CancellationError() }
            if erasers.contains(byte) { _ = text.popLast() } else { text.append(byte) }
        }
        return String(decoding: text, as: UTF8.self).trimmingCharacters(in: .whitespaces)
    }

    private static func prompting(_ prompt: String) {
        // If standard error is closed, the person sees no prompt, and there is no place to say so.
        try? FileHandle.standardError.write(contentsOf: Data(prompt.utf8))
    }
}
