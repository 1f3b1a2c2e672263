import ArgumentParser

/// The verbs of `tidemark device`, for people who leave `device` out.
struct Misplaced: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        shouldDisplay: false,
        aliases: ["join", "rescue", "status", "conflicts", "resolve"]
    )
    @Argument(parsing: .captureForPassthrough) var rest: [String] = []

    func run() throws {
        let words = CommandLine.arguments.dropFirst().joined(separator: " ")
        throw ValidationError("Did you mean `tidemark device \(words)`?")
    }
}
