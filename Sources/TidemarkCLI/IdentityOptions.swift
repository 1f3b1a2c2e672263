import ArgumentParser
import Logging
import TidemarkCore
import TidemarkEngine
import TidemarkServer
import TidemarkTerminal

/// The options of `tidemark serve` about the people who send requests.
struct IdentityOptions: ParsableArguments {
    @Flag(
        help: ArgumentHelp(
            "Only users with a token may send requests; `tidemark user add` adds them.",
            discussion: "Needed to listen on another address than the loopback.")) var users = false

    @Option(
        help: ArgumentHelp(
            "A file with the identity providers whose tokens the server accepts, the rights of everybody, and limits.",
            discussion: """
                The server reads it again on SIGHUP. A file with a problem leaves the former in force. \
                `tidemark access check` reports all problems.
                """,
            valueName: "access.json")
    ) var access: String?

    @Flag(help: "Let everybody who reaches the server act as the owner, although it has users or listens elsewhere.")
    var noIdentity = false

    func validate() throws {
        guard !noIdentity || !users && access == nil else {
            throw ValidationError("Give either --no-identity, or --users or --access.")
        }
    }

    var identity: ListenSafety.Identity { users || access != nil ? .users : noIdentity ? .renounced : .none }

    /// An open gate, and the lines to print about it.
    struct OpenGate {
        let gate: any AccessGate
        let lines: [String]
        /// The users' access; nil at a server without identity.
        var access: ServedAccess?
        var close: @Sendable () throws -> Void = {}
        var rates: RequestRates? { access?.rates }
        /// Called at SIGHUP; nil if there is no file to read again.
        var onHangUp: (@Sendable () async -> Void)? { access?.onHangUp }

        /// Runs a server, and keeps the keys of identity providers fresh meanwhile.
        func run(_ server: () async throws -> Void) async throws {
            if let access { try await access.run(server) } else { try await server() }
        }
    }

    /// Throws `invalidArgument` if the place has users whom the server would ignore; it changes nothing.
    func check(_ location: AccessLocation) async throws {
        guard identity == .none, try await location.hasUsers() else { return }
        throw TidemarkError(
            .invalidArgument,
            "This store has users, and without --users everybody would act as the owner.",
            fix: """
                Serve with --users; `tidemark user list \(location.arguments)` shows them. If everybody may read and \
                write everything, serve with --no-identity.
                """)
    }

    /// Opens the gate of the chosen identity beside a store; `host` is the store if it makes zones while it runs.
    func open(_ location: AccessLocation, host: (any ZoneHost)?, logger: Logger) async throws -> OpenGate {
        switch identity {
        case .none: return OpenGate(gate: LocalGate(), lines: [])
        case .renounced:
            let line = "warning: --no-identity: everybody who reaches this server acts as the owner of all rows"
            return OpenGate(gate: LocalGate(), lines: [line])
        case .users:
            let opened = try await location.open()
            let file = access.map { ServedAccess.File(path: $0, hasOwnUsers: users) }
            let served = try await ServedAccess(file, database: opened.database, host: host, logger: logger)
            let count = try await opened.database.transaction { statements in
                try Members(statements, now: SystemClock.milliseconds()).users().count { !$0.isDisabled }
            }
            // Users of a provider need no invitation.
            let line =
                count > 0 || !served.lines.isEmpty
                ? "\(Counted.text(count, "user")) may sign in"
                : "nobody may sign in yet; add a user: tidemark user add NAME \(location.arguments)"
            return OpenGate(gate: served.gate, lines: served.lines + [line], access: served, close: opened.close)
        }
    }
}
