import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkTerminal

/// `tidemark token`: the tokens of a server.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Issue, list and revoke the tokens of a server.",
        discussion: """
            For a server that runs with --users; it may run meanwhile. The server keeps only the hash of a token. A \
            token's id, its middle part, names it in lists.

              tidemark token add anna --expires 30 --data ./data
              tidemark token list anna --data ./data
              tidemark token revoke k3f9q2mz --data ./data
            """,
        subcommands: [Add.self, List.self, Revoke.self])

    /// A token in the JSON output.
    fileprivate struct Row: Encodable {
        let id: String
        let kind: String
        let user: String
        let device: String?
        let state: String
        let created: String
        let expires: String

        init(_ entry: TokenRegister.Entry, now: Int64) {
            id = entry.id
            kind = entry.kind.name
            user = entry.user
            device = entry.device
            state = entry.condition(at: now)
            created = AccessTexts.time(entry.created)
            expires = AccessTexts.end(entry.expires)
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Issue a token to a program of a user, or to one that reads the server's metrics.")
        @Argument(help: "The user for whom the program acts.") var user: String
        @Option(
            help: ArgumentHelp(
                "How long the token lives; without it 90 days, and with --administrator until it is revoked.",
                valueName: "days")) var expires: Int64?
        @Flag(help: "The program reads GET /metrics; the token opens nothing else.") var administrator = false
        @OptionGroup var place: AccessPlace

        private struct NewToken: Encodable {
            let user: String
            let id: String
            let token: String
            let expires: String
        }

        func run() async throws {
            try await Terminal.run {
                let issue = try await place.transaction { [self] statements, now, generator in
                    try Administration(statements, now: now).addToken(
                        to: user, days: expires, isAdministrator: administrator, using: &generator)
                }
                let end = AccessTexts.end(issue.expires)
                guard !place.json else {
                    return try Terminal.json(
                        NewToken(user: user, id: issue.token.id, token: issue.token.text, expires: end))
                }
                let until = issue.expires == nil ? "until it is revoked" : "until \(end.prefix(10))"
                let purpose = administrator ? "for GET /metrics and nothing else, " : ""
                Terminal.line("a token of \(Terminal.shown(user)), \(purpose)\(until); it is not shown again:")
                Terminal.line("    \(issue.token.text)")
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List tokens: unused, active, replaced by a newer one, ended or revoked.")
        @Argument(help: "Only the tokens of this user.") var user: String?
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let rows = try await place.transaction { [user] statements, now, _ in
                    if let user { try Members(statements, now: now).require(user) }
                    return try TokenRegister(statements).entries(of: user).map { Row($0, now: now) }
                }
                if place.json { return try Terminal.json(rows) }
                Terminal.table(
                    rows.map { row in
                        [
                            row.id, row.kind, row.user, row.state,
                            "\(row.created.prefix(10)) to \(row.expires.prefix(10))",
                            row.device.map { "device \($0)" } ?? "",
                        ]
                    }
                )
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a token: the server refuses it from now on.")
        @Argument(help: "The token's id, as `tidemark token list` shows it.") var id: String
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                try await place.transaction { [id] statements, now, _ in
                    try Administration(statements, now: now).revokeToken(id)
                }
                if place.json { return try Terminal.json(["id": id, "state": "revoked"]) }
                Terminal.line("token \(id) is revoked")
            }
        }
    }
}
