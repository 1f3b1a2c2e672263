import ArgumentParser
import Foundation
import Synchronization
import Tidemark
import TidemarkCore

/// The credentials of a command, and the certificate authorities that it trusts.
struct ServerAccess: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A file that holds the bearer token for the server; without it, TIDEMARK_TOKEN of the environment.",
            discussion: "Read again when the server refuses the token.",
            valueName: "file"
        )
    ) var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            """
            A PEM file of certificate authorities to trust in place of the system's; without it, TIDEMARK_CA_FILE of \
            the environment.
            """,
            valueName: "file"
        )
    ) var caFile: String?

    /// Creates a transport to a server.
    func transport(to url: String) throws -> HTTPTransport {
        let environment = ProcessInfo.processInfo.environment
        let file = caFile ?? environment["TIDEMARK_CA_FILE"]
        return try HTTPTransport(
            url: url,
            credentials: try credentials(environment),
            certificateAuthorities: file.flatMap { $0.isEmpty ? nil : $0 }
        )
    }

    private func credentials(_ environment: [String: String]) throws -> Credentials {
        if let tokenFile { return try TokenFile(tokenFile).credentials }
        guard let token = environment["TIDEMARK_TOKEN"], !token.isEmpty else { return .none }
        return try .token(token.withoutLineBreakAtEnd)
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

    var credentials: Credentials { .provider { [self] need in need == .request ? token.withLock { $0 } : reread() } }

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
        let data: Data
        do { data = try Data(contentsOf: URL(filePath: path)) } catch {
            throw unusable(path, "cannot be read: \(error.localizedDescription)")
        }
        guard let text = String(data: data, encoding: .utf8) else { throw unusable(path, "is no text") }
        return text.withoutLineBreakAtEnd
    }

    private static func unusable(_ path: String, _ reason: String) -> TidemarkError {
        TidemarkError(
            .unusableFile,
            "The token file \(path) \(reason).",
            fix: "Give a file that holds the token and nothing else."
        )
    }
}

extension String {
    /// The text without the line break that editors and `echo` put at its end.
    fileprivate var withoutLineBreakAtEnd: String { hasSuffix("\r\n") || hasSuffix("\n") ? String(dropLast()) : self }
}
