import ArgumentParser
import Foundation
import Synchronization
import Tidemark
import TidemarkCore
import TidemarkTerminal

/// The credentials of a command, and the certificate authorities that it trusts.
struct ServerAccess: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A file that holds the bearer token for the server; without it, TIDEMARK_TOKEN of the environment.",
            discussion: "Read again for each request.", valueName: "file")) var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            """
            The file of this machine's tokens, by server; without it, tidemark/tokens.json in XDG_CONFIG_HOME or \
            ~/.config.
            """,
            valueName: "file")
    ) var tokens: String?

    @Option(
        help: ArgumentHelp(
            """
            A PEM file of certificate authorities to trust in place of the system's; without it, TIDEMARK_CA_FILE of \
            the environment.
            """,
            valueName: "file")
    ) var caFile: String?

    /// Creates a transport; with `asksForToken`, it asks a person for a sign-in token if the server wants one.
    func transport(to url: String, asksForToken: Bool = false) throws -> HTTPTransport {
        let environment = ProcessInfo.processInfo.environment
        let file = caFile ?? environment["TIDEMARK_CA_FILE"]
        return try HTTPTransport(
            url: url, credentials: try credentials(environment, asksForToken: asksForToken, server: url),
            certificateAuthorities: file.flatMap { $0.isEmpty ? nil : $0 })
    }

    private func credentials(_ environment: [String: String], asksForToken: Bool, server: String) throws
        -> Credentials
    {
        if let tokenFile { return try TokenFile(tokenFile).credentials }
        let store = FileTokenStore(path: tokens ?? Self.defaultTokens(environment))
        if let text = environment["TIDEMARK_TOKEN"]?.withoutLineBreakAtEnd, !text.isEmpty {
            let credentials = try Credentials.token(text)
            guard text.hasPrefix(Self.signInPrefix) else { return credentials }
            return .stored(in: store) { _ in text }
        }
        guard asksForToken else { return .stored(in: store) }
        return .stored(in: store) { need in
            guard need == .refused else { return nil }
            return try await Terminal.secret("Sign-in token for \(server): ")
        }
    }

    /// The beginning of a token that the device exchanges for one of its own.
    private static let signInPrefix = "tmu_"

    /// Returns the file of this account's tokens.
    private static func defaultTokens(_ environment: [String: String]) -> String {
        let folder = environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        // HOME counts first, as for other programs; a service may have none.
        let own = environment["HOME"].flatMap { $0.hasPrefix("/") ? URL(filePath: $0) : nil }
        let home = (own ?? FileManager.default.homeDirectoryForCurrentUser).appending(path: ".config").path
        return "\(folder ?? home)/tidemark/tokens.json"
    }
}

/// A bearer token in a file, which another program may replace while this one runs.
private final class TokenFile: Sendable {
    private let path: String
    private let token: Mutex<String>

    init(_ path: String) throws {
        let token = try Self.read(path)
        // Report an invalid token file before the command changes anything.
        _ = try Credentials.token(token)
        self.path = path
        self.token = Mutex(token)
    }

    var credentials: Credentials { .provider { [self] _ in reread() } }

    /// Reads the file's current token.
    private func reread() -> String {
        // While a program replaces the file, it may have no valid token; then keep the old one.
        guard let fresh = try? Self.read(path), (try? Credentials.token(fresh)) != nil else {
            return token.withLock { $0 }
        }
        token.withLock { $0 = fresh }
        return fresh
    }

    private static func read(_ path: String) throws(TidemarkError) -> String {
        try ExistingFile.require(path, fix: fix)
        let data: Data
        do { data = try Data(contentsOf: URL(filePath: path)) } catch {
            throw unusable(path, "cannot be read: \(error.localizedDescription)")
        }
        guard let text = String(data: data, encoding: .utf8) else { throw unusable(path, "is no text") }
        return text.withoutLineBreakAtEnd
    }

    private static let fix = "Give a file that holds the token and nothing else."

    private static func unusable(_ path: String, _ reason: String) -> TidemarkError {
        TidemarkError(.unusableFile, "The token file \(path) \(reason).", fix: fix)
    }
}

extension String {
    /// The text without the line break that editors and `echo` put at its end.
    fileprivate var withoutLineBreakAtEnd: String { hasSuffix("\r\n") || hasSuffix("\n") ? String(dropLast()) : self }
}
