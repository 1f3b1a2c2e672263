import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkTerminal

/// `tidemark user`: the users of a server.
struct UserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user",
        abstract: "Add, list, disable and remove the users of a server.",
        discussion: """
            For a server that runs with --users; it may run meanwhile. Users have no passwords: a new user gets a \
            sign-in token, which one device exchanges for a token of its own.

              tidemark user add anna --data ./data
              tidemark user role anna reader --data ./data
              tidemark user disable anna --data ./data
            """,
        subcommands: [Add.self, List.self, Disable.self, Enable.self, Remove.self, ChangeRole.self, SignIn.self])

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user, and print the token with which the user's first device signs in.")
        @Argument(help: "The user's name.") var name: String
        @Option(help: "The zone.") var zone = "main"
        @Option(help: "The rights in the zone: owner, writer, reader or none.") var role = "writer"
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let role = try AccessTexts.role(named: role)
                if role != nil { try await place.requireZone(zone) }
                let isFirst = try await !place.location.hasUsers()
                let issue = try await place.transaction(makes: true) { [name, zone] statements, now, generator in
                    try Administration(statements, now: now)
                        .addUser(name, role: role, in: zone, using: &generator)
                }
                try SignInToken(issue).show(json: place.json)
                guard !place.json else { return }
                Terminal.line(
                    role.map { "\(name) is \($0.withArticle) of zone \(zone); `tidemark user role` changes that." }
                        ?? "\(name) has no zone yet; `tidemark user role` gives one.")
                if isFirst {
                    Terminal.line(
                        """
                        A server that runs without --users knows no users: everybody who reaches it is still the \
                        owner. Start it again with --users.
                        """)
                }
            }
        }
    }

    struct SignIn: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign-in", abstract: "Print another sign-in token of a user, for one more device.")
        @Argument(help: "The user's name.") var name: String
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let issue = try await place.transaction { [name] statements, now, generator in
                    try Administration(statements, now: now).signIn(name, using: &generator)
                }
                try SignInToken(issue).show(json: place.json)
            }
        }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Refuse every request of a user from now on; the user's rights and tokens stay.")
        @Argument(help: "The user's name.") var name: String
        @OptionGroup var place: AccessPlace

        func run() async throws { try await Switch(name: name, isDisabled: true, place: place).run() }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Admit a disabled user again.")
        @Argument(help: "The user's name.") var name: String
        @OptionGroup var place: AccessPlace

        func run() async throws { try await Switch(name: name, isDisabled: false, place: place).run() }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user with all tokens and rights, and delete the zones that are the user's alone.",
            discussion: """
                The private zone and others without another member are deleted; `tidemark zones restore` brings one \
                back for 30 days. What the user wrote into the zones of others stays. A user of an identity provider \
                comes back with the next request: disable such a user.

                  tidemark user remove anna --data ./data
                """)
        @Argument(help: "The user's name.") var name: String
        @OptionGroup var place: AccessPlace

        private struct Removal: Encodable {
            let user: String
            let state = "removed"
            let deletedZones: [String]
        }

        func run() async throws {
            try await Terminal.run {
                let zones = try await place.transaction { [name] statements, now, _ in
                    try Members(statements, now: now).remove(name)
                }
                if place.json { return try Terminal.json(Removal(user: name, deletedZones: zones)) }
                Terminal.line("\(name) is removed: the server refuses every token of \(name) from now on")
                for zone in zones {
                    Terminal.line("deleted zone \(zone); to restore it: tidemark zones restore \(zone)")
                }
            }
        }
    }

    struct ChangeRole: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "role", abstract: "Give a user rights in a zone, or take them by the role none.")
        @Argument(help: "The user's name.") var name: String
        @Argument(help: "The rights in the zone: owner, writer, reader or none.") var role: String
        @Option(help: "The zone.") var zone = "main"
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let role = try AccessTexts.role(named: role)
                try await place.requireZone(zone)
                try await place.transaction { [name, zone] statements, now, _ in
                    try Members(statements, now: now).set(role, of: name, in: zone)
                }
                if place.json {
                    return try Terminal.json(["user": name, "zone": zone, "role": AccessTexts.role(role)])
                }
                Terminal.line(
                    role.map { "\(name) is \($0.withArticle) of zone \(zone)" }
                        ?? "\(name) is no member of zone \(zone)")
            }
        }
    }
}

/// Disables or enables a user.
private struct Switch {
    let name: String
    let isDisabled: Bool
    let place: AccessPlace

    func run() async throws {
        try await Terminal.run {
            try await place.transaction { [name, isDisabled] statements, now, _ in
                try Administration(statements, now: now).set(name, isDisabled: isDisabled)
            }
            if place.json { return try Terminal.json(["user": name, "state": isDisabled ? "disabled" : "enabled"]) }
            Terminal.line(
                isDisabled
                    ? "\(name) is disabled: the server refuses every request that begins from now on"
                    : "\(name) is enabled")
        }
    }
}

/// A new sign-in token, as a command shows it once.
private struct SignInToken: Encodable {
    let user: String
    let token: String
    let expires: String

    init(_ issue: Administration.Issue) {
        user = issue.user
        token = issue.token.text
        expires = AccessTexts.end(issue.expires)
    }

    func show(json: Bool) throws {
        if json { return try Terminal.json(self) }
        Terminal.line("\(user) may sign in once with")
        Terminal.line("    \(token)")
        Terminal.line("until \(expires.prefix(10)); the token is not shown again. On the device:")
        Terminal.line("    TIDEMARK_TOKEN=\(token) tidemark device join https://SERVER FILE.sqlite")
    }
}
