internal import Foundation
internal import Synchronization

/// A progress bar on standard error; without a terminal, it prints only the final line.
package final class ProgressBar: Sendable {
    private let label: String
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let visiblePercent = Mutex(-1)
    private let visibleWaits = Mutex(0)

    /// Creates a bar, which appears with the first update.
    package init(_ label: String) { self.label = label }

    package func update(_ received: Int64, of total: Int64?) {
        guard let total else { return }
        update(received, of: total) { "\(Self.size(received)) of \(Self.size(total))" }
    }

    package func update(_ done: Int, of total: Int, unit: String) {
        update(Int64(done), of: Int64(total)) { "\(done) of \(total) \(unit)" }
    }

    /// Shows what the work waits for, with a sign more at each call.
    package func wait(_ reason: String) {
        guard isTerminal else { return }
        let count = visibleWaits.withLock { count in
            count = (count + 1) % 4
            return count
        }
        write("\r\u{1B}[K  \(label): \(reason) \(String(repeating: ".", count: count))")
    }

    private func update(_ done: Int64, of total: Int64, _ text: () -> String) {
        guard isTerminal, total > 0 else { return }
        let percent = Int(min(done, total) * 100 / total)
        let hasChanged = visiblePercent.withLock { visible in
            defer { visible = percent }
            return visible != percent
        }
        guard hasChanged else { return }
        let bar = String(repeating: "#", count: percent * Self.width / 100)
        let rest = String(repeating: ".", count: Self.width - bar.count)
        write("\r  \(label) [\(bar)\(rest)] \(percent)%  \(text())")
    }

    private static let width = 30

    /// Removes the bar, before the program writes a result to standard output.
    package func clear() { if isTerminal { write("\r\u{1B}[K") } }

    /// Replaces the bar by a final line.
    package func finish(_ text: String) { write(isTerminal ? "\r\u{1B}[K\(text)\n" : "\(text)\n") }

    private func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }

    package static func size(_ bytes: Int64) -> String {
        bytes < 1_000_000 ? "\(max(bytes / 1_000, 1)) kB" : "\(bytes / 1_000_000).\(bytes / 100_000 % 10) MB"
    }
}
