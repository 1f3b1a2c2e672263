import ArgumentParser

/// Catches the subcommands of `tidemark device` without `device`, and suggests the right command.
struct Misplaced: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync", shouldDisplay: false, aliases: ["join", "rescue", "status", "conflicts", "resolve"])
    @Argument(parsing: .captureForPassthrough) var rest: [String] = []

    func run() throws {
        let words = CommandLine.arguments.dropFirst().joined(separator: " ")
        throw ValidationError("Did you mean `tidemark device \(words)`?")
    }
}
