import ArgumentParser
import Tidemark
import TidemarkCore
import TidemarkTerminal

extension Device {
    struct SignOut: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign-out",
            abstract: "End this machine's token at the server of a file, and forget it.",
            discussion: """
                The file keeps its rows, its edits and its conflicts. Other files of the same server are signed out as \
                well. Sign in again by TIDEMARK_TOKEN or by `tidemark device join`.
                """)
        @Argument(help: "The device's file.") var file: String
        @Flag(help: "Sign out although edits wait here that the server does not have.") var keepChanges = false
        @OptionGroup var access: ServerAccess

        func run() async throws {
            try await Terminal.runInterruptibly {
                let status = try await OpenDevice.status(file)
                guard keepChanges || status.pendingChangeSets == 0 else {
                    throw TidemarkError(
                        .changesWait,
                        "\(file) has \(Counted.text(status.pendingChangeSets, "change set")) that the server lacks.",
                        fix: "Sync first, or add --keep-changes: they stay in the file until the next sign-in.")
                }
                try await access.transport(to: status.server).signOut()
                Terminal.line("signed out of \(status.server)")
            }
        }
    }
}
