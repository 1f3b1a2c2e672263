import Logging
import Synchronization
import TidemarkCore
import TidemarkEngine
import TidemarkIdentity
import TidemarkServer
import TidemarkTerminal

/// The gate and the limits of a server with users, by an access file that it follows, or without one.
final class ServedAccess: Sendable {
    /// Decides who sends a request, and what the sender may do.
    let gate: MemberGate
    let rates: RequestRates
    private let file: File?
    private let host: (any ZoneHost)?
    private let logger: Logger
    private let tokens: Mutex<ProviderTokens>

    struct File: Sendable {
        let path: String
        /// Whether the server's own users may sign in, whatever the file says.
        let hasOwnUsers: Bool

        func read() throws(TidemarkError) -> AccessConfiguration {
            var configuration = try AccessConfiguration(path: path)
            configuration.hasOwnUsers = configuration.hasOwnUsers || hasOwnUsers
            return configuration
        }
    }

    /// The pause between two looks at the age of the providers' keys.
    private static let pause = Duration.seconds(60)
    /// The pause between two looks for zones whose time of grace is over.
    private static let purgePause = Duration.seconds(3_600)

    /// Reads the file and the keys of its providers, and makes its zones; without one, the server has users of its own.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with every problem of the file, its keys and its zones.
    init(_ file: File?, database: any AccessDatabase, host: (any ZoneHost)?, logger: Logger) async throws(TidemarkError)
    {
        let configuration = try file?.read() ?? AccessConfiguration()
        let tokens = try await ProviderTokens(configuration.providers, now: SystemClock.milliseconds)
        try await Self.makeZones(of: configuration, at: host)
        gate = MemberGate(
            database, host: host, policy: AccessPolicy(configuration, verifier: tokens), now: SystemClock.milliseconds)
        rates = RequestRates(configuration.limits)
        self.file = file
        self.host = host
        self.logger = logger
        self.tokens = Mutex(tokens)
    }

    /// The lines to print about the providers.
    var lines: [String] {
        tokens.withLock { $0.summaries }.map { summary in
            let unused = summary.unusedKeys.isEmpty ? "" : ", \(summary.unusedKeys.count) not used"
            return "provider \(summary.name): \(summary.keys) key\(summary.keys == 1 ? "" : "s")\(unused)"
        }
    }

    /// Reads the access file again; nil without one.
    var onHangUp: (@Sendable () async -> Void)? {
        guard let file else { return nil }
        return { await self.reread(file) }
    }

    /// Runs a server, and keeps the keys of the providers fresh meanwhile.
    func run(_ server: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await self.refreshKeys() }
            tasks.addTask { await self.purgeZones() }
            defer { tasks.cancelAll() }
            try await server()
        }
    }

    /// Reads the file again; a file or keys with a problem leave the former in force.
    private func reread(_ file: File) async {
        do throws(TidemarkError) {
            let configuration = try file.read()
            let fresh = try await ProviderTokens(configuration.providers, now: SystemClock.milliseconds)
            try await Self.makeZones(of: configuration, at: host)
            gate.follow(AccessPolicy(configuration, verifier: fresh))
            rates.follow(configuration.limits)
            tokens.withLock { $0 = fresh }
            Terminal.line("read the access file again")
        } catch {
            logger.error("the access file stays as it was", metadata: ["error": "\(error)"])
            Terminal.line("the former access file stays in force: \(error.message)")
        }
    }

    /// Makes the zones that a configuration names and that are not there.
    private static func makeZones(of configuration: AccessConfiguration, at host: (any ZoneHost)?)
        async throws(TidemarkError)
    {
        guard let host else { return }
        for name in configuration.zones.keys.sorted() {
            try ZoneName.requireChoosable(name)
            do { try await host.makeZone(name) } catch let error as TidemarkError { throw error } catch {
                throw TidemarkError(
                    .unavailable, "The zone \(name) of the access file cannot be made: \(error).",
                    fix: "Check that the server can write into its folder or database.")
            }
        }
    }

    /// Removes the rows of zones whose time of grace is over, until the task is cancelled.
    private func purgeZones() async {
        guard let registry = gate.registry else { return }
        let clock = ContinuousClock()
        while !Task.isCancelled {
            do {
                for zone in try await registry.purge() {
                    logger.notice("removed a zone that was deleted", metadata: ["zone": "\(zone)"])
                }
            } catch  where !Task.isCancelled {
                logger.error("cannot remove deleted zones", metadata: ["error": "\(error)"])
            } catch { return }
            // Only a cancelled task does not sleep, and it ends the loop.
            try? await clock.sleep(for: Self.purgePause)
        }
    }

    /// Fetches the keys that are due, until the task is cancelled.
    private func refreshKeys() async {
        let clock = ContinuousClock()
        while !Task.isCancelled {
            for name in await tokens.withLock({ $0 }).refreshKeys() {
                logger.error("the keys of an identity provider cannot be read", metadata: ["provider": "\(name)"])
            }
            // Only a cancelled task does not sleep, and it ends the loop.
            try? await clock.sleep(for: Self.pause)
        }
    }
}
