internal import ArgumentParser
internal import Foundation
internal import GRDB
internal import TidemarkCore
internal import TidemarkSQL

/// Writes all output of the command line.
///
/// Titles, names, values and messages come from other people and from servers. So no output has a control character
/// but the ends of its lines and tabs: escape sequences of a title do nothing.
package enum Terminal {
    /// Writes a line to standard output, at once.
    package static func line(_ text: String = "") { write(text, to: .standardOutput) }
    package static func note(_ text: String) { write(text, to: .standardError) }
    /// Returns a text of somebody else as a part of a line: it ends no line either.
    package static func shown(_ text: String) -> String { text.showingHiddenCharacters() }
    /// Ignores SIGPIPE, so that a server continues when the program that reads its log ends.
    package static func outliveReaders() { signal(SIGPIPE, SIG_IGN) }

    private static func write(_ text: String, to file: FileHandle) {
        // If standard output is closed, there is no place to report the error.
        try? file.write(contentsOf: Data((text.showingHiddenCharacters(except: ["\n", "\t"]) + "\n").utf8))
    }

    /// Writes a value as indented JSON to standard output.
    package static func json(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        line(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Writes a JSON object or array, indented, to standard output.
    package static func json(object: Any) throws {
        let options: JSONSerialization.WritingOptions = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let data = try JSONSerialization.data(withJSONObject: object, options: options)
        line(String(decoding: data, as: UTF8.self))
    }

    /// Writes rows in aligned columns, those in `right` to the right; each cell is one line, whatever its text.
    package static func table(_ rows: [[String]], right: Set<Int> = []) {
        let rows = rows.map { $0.map(shown) }
        let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let cells = row.enumerated().map { column, text in
                let padding = String(repeating: " ", count: widths[column] - text.count)
                return right.contains(column) ? padding + text : text + padding
            }
            line(cells.joined(separator: "  ").trimmingTrailingSpaces())
        }
    }

    private static func exitCode(of error: TidemarkError) -> ExitCode {
        switch error.code {
        case .unreachable: ExitCode(4)
        case .syncInProgress: ExitCode(5)
        case .rateLimited, .unavailable, .snapshotPending: error.retryAfterSeconds == nil ? .failure : ExitCode(6)
        default: .failure
        }
    }

    /// The remedy for a person whose request the server refuses for want of a token.
    private static let tokenAdvice = """
        Give a valid token in TIDEMARK_TOKEN of the environment, or a file with it by --token-file; the server's \
        operator issues one by `tidemark user sign-in NAME`, for a new user by `tidemark user add NAME`.
        """

    /// Runs a command's work and turns its errors into one readable message and an exit code.
    package static func run(_ work: () async throws -> Void) async throws {
        do { try await work() } catch let error as TidemarkError {
            note("tidemark: \(error.message)")
            let place = error.place.description
            if !place.isEmpty { note("  where: \(place)") }
            if let seconds = error.retryAfterSeconds { note("  when: in \(seconds) s, as the server asks") }
            note("  what to do: \(error.code == .signInNeeded ? tokenAdvice : error.fix)")
            throw exitCode(of: error)
        } catch is CancellationError {
            // The person pressed Control-C at a question; shells expect 128 plus the signal's number.
            throw ExitCode(128 + SIGINT)
        } catch let error as DatabaseError {
            let typed = TidemarkError(storage: error, of: "the file")
            let message = "SQLite cannot go on: \(error.message ?? "no reason given")"
            note("tidemark: \(typed?.message ?? message)")
            let fix = "Check that the file is a database and that its disk has room."
            note("  what to do: \(typed?.fix ?? fix)")
            throw ExitCode.failure
        } catch let error as UnsyncableSchema {
            note("tidemark: \(error)")
            throw ExitCode.failure
        }
    }
}

extension String {
    fileprivate func trimmingTrailingSpaces() -> String {
        var text = self
        while text.hasSuffix(" ") { text.removeLast() }
        return text
    }
}
