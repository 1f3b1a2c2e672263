internal import Foundation
internal import Synchronization

/// A progress bar on standard error: drawn in place on a terminal, silent otherwise until the end.
package final class ProgressBar: Sendable {
    private let label: String
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let shownPercent = Mutex(-1)

    /// Makes a bar that is drawn with the first update.
    package init(_ label: String) { self.label = label }

    /// Shows how far it is, in bytes.
    package func update(_ received: Int64, of total: Int64?) {
        guard let total else { return }
        update(received, of: total) { "\(Self.size(received)) of \(Self.size(total))" }
    }

    /// Shows how far it is, in pieces of work.
    package func update(_ done: Int, of total: Int, unit: String) {
        update(Int64(done), of: Int64(total)) { "\(done) of \(total) \(unit)" }
    }

    private func update(_ done: Int64, of total: Int64, _ text: () -> String) {
        guard isTerminal, total > 0 else { return }
        let percent = Int(min(done, total) * 100 / total)
        guard
            shownPercent.withLock({ shown in
                defer { shown = percent }
                return shown != percent
            })
        else { return }
        let filled = String(repeating: "#", count: percent * 30 / 100)
        let empty = String(repeating: ".", count: 30 - filled.count)
        write("\r  \(label) [\(filled)\(empty)] \(percent)%  \(text())")
    }

    /// Takes the bar away, before a result is written to standard output.
    package func clear() { if isTerminal { write("\r\u{1B}[K") } }

    /// Ends the bar.
    package func finish(_ text: String) { write(isTerminal ? "\r\u{1B}[K\(text)\n" : "\(text)\n") }

    private func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }

    /// A size for people.
    package static func size(_ bytes: Int64) -> String {
        bytes < 1_000_000 ? "\(max(bytes / 1_000, 1)) kB" : "\(bytes / 1_000_000).\(bytes / 100_000 % 10) MB"
    }
}
