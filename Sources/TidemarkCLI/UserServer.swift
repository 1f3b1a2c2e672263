import ArgumentParser
import Tidemark

/// The server of a command that a user gives, and the user's credentials.
struct UserServer: ParsableArguments {
    @Argument(help: "The server, for instance https://sync.example.org.") var url: String
    @OptionGroup var access: ServerAccess
    @Flag(help: "Print JSON.") var json = false

    /// Creates a transport; it asks a person for a sign-in token if the server wants one.
    func transport() throws -> HTTPTransport { try access.transport(to: url, asksForToken: true) }
}
