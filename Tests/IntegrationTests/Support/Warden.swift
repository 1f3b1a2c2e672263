import Foundation

/// Ends the programs of a test run that was itself ended by a crash, a signal or a debugger.
///
/// A small shell reads their process ids from a pipe whose other end only the tests hold. When the
/// pipe ends although no test dismissed the shell, the tests are gone, and it kills the rest.
final class Warden: @unchecked Sendable {
    // `init` alone changes the process and the pipe; an id is written whole.
    private let shell = Process()
    private let ids = Pipe()

    /// Process ids are reused: kills only processes that still look like ours.
    private static let script = """
        while read -r id; do all="$all $id"; done
        for id in $all; do
            case "$(ps -o args= -p "$id")" in *tidemark*) kill -9 "$id" ;; esac
        done
        """

    init() throws {
        shell.executableURL = URL(filePath: "/bin/sh")
        shell.arguments = ["-c", Self.script]
        shell.standardInput = ids
        try shell.run()
    }

    /// Adds a program to the list.
    func watch(_ id: Int32) throws { try ids.fileHandleForWriting.write(contentsOf: Data("\(id)\n".utf8)) }

    /// Reports that the tests have cleaned up by themselves.
    func dismiss() { kill(shell.processIdentifier, SIGKILL) }
}
