public import Foundation
public import GRDB
internal import TidemarkCore

/// A person's zones on one device, each in a SQLite file of its own.
///
/// ```swift
/// let account = try await SyncAccount(server: "https://sync.example.org", folder: folder,
///     credentials: .provider { try await identity.token(refreshing: $0 == .refused) }) { try migrator.migrate($0) }
/// let home = try await account.open()             // the private zone: home.database, home.sync
/// await account.start()                           // syncs the open zones, now and later
/// try await account.signIn()                      // the edits made before become the user's
/// ```
///
/// People may edit before they sign in. The first sign-in makes the file with these edits the user's private
/// one; nothing is copied. From then on the file is that user's for ever: neither the device nor the server
/// takes its edits for another user's.
///
/// The folder also has the file `account.json`, with no token in it. Each change of an account is stored
/// before it has an effect, so a process that ends in the middle goes on or finishes it at the next start.
/// One process at a time may use a folder; other programs may edit the files in it.
///
/// An actor: safe to use from any task. Sign-in, sign-out, opening and leaving wait for each other.
public actor SyncAccount {
    /// The user's private zone, whatever its name at the server.
    public static let privateZone = ZoneKind.privateAlias

    /// What happens with the user's files at a sign-out.
    public enum FilesAtSignOut: Hashable, Sendable {
        /// They stay. The app can read and edit them, and the same user can sign in again and go on.
        case stay
        /// They are removed from the device.
        case remove
    }

    let address: ServerAddress
    private let server: String
    private let folder: String
    private let credentials: Credentials
    private let certificateAuthorities: String?
    private let configuration: Configuration
    private let environment: SyncEngine.Environment
    private let merge: [String: MergeFunction]
    private let migrate: @Sendable (DatabasePool) throws -> Void
    /// Called after each durable step; a test ends the process there.
    private let checkpoint: @Sendable () throws -> Void
    nonisolated let lists = Broadcast<[ZoneSummary]>()

    // MARK: State: touched on the actor only

    private var registry: AccountRegistry
    /// The open files by name.
    private var zones: [String: AccountZone] = [:]
    /// The transport with the credentials of the user who is signed in.
    private(set) var session: HTTPTransport?
    private var isBusy = false
    private var waiters: [CheckedContinuation<Void, Never>] = []
    /// The background sync; nil while it is stopped.
    var listening: Task<Void, Never>?
    /// The pause between two looks at the list of zones.
    var interval = Duration.seconds(30)
    /// The zones of the user at the last look, and the tag of the list.
    var list: (zones: [ZoneSummary], tag: String?) = ([], nil)
    /// The idempotency keys of zones whose creation the server has not answered, by title.
    var unansweredCreations: [String: String] = [:]

    /// Opens the account of a folder; it makes no request.
    ///
    /// - Parameters:
    ///   - server: The server's URL.
    ///   - folder: The folder of the files, made if it is missing; only its owner can read it.
    ///   - credentials: The credentials of the person who signs in.
    ///   - certificateAuthorities: The path of a PEM file with authorities to trust in place of the system's.
    ///   - configuration: The configuration of the databases.
    ///   - environment: Time and randomness.
    ///   - merge: As in ``SyncEngine``.
    ///   - migrate: Makes the app's tables in a database, or migrates them. It may not insert rows: the
    ///     server's rows arrive with the first sync.
    /// - Throws: ``TidemarkCore/TidemarkError`` for an invalid URL, or a folder of another server.
    public init(
        server: String,
        folder: URL,
        credentials: Credentials,
        certificateAuthorities: String? = nil,
        configuration: Configuration = Configuration(),
        environment: SyncEngine.Environment = .system,
        merge: [String: MergeFunction] = [:],
        migrate: @escaping @Sendable (DatabasePool) throws -> Void
    ) async throws {
        try await self.init(
            server: server,
            folder: folder,
            credentials: credentials,
            certificateAuthorities: certificateAuthorities,
            configuration: configuration,
            environment: environment,
            merge: merge,
            checkpoint: {},
            migrate: migrate
        )
    }

    /// Opens the account of a folder, with a function that is called after each durable step.
    init(
        server: String,
        folder: URL,
        credentials: Credentials,
        certificateAuthorities: String? = nil,
        configuration: Configuration = Configuration(),
        environment: SyncEngine.Environment = .system,
        merge: [String: MergeFunction] = [:],
        checkpoint: @escaping @Sendable () throws -> Void,
        migrate: @escaping @Sendable (DatabasePool) throws -> Void
    ) async throws {
        address = try ServerAddress(server)
        self.server = server
        self.folder = folder.path
        self.credentials = credentials
        self.certificateAuthorities = certificateAuthorities
        self.configuration = configuration
        self.environment = environment
        self.merge = merge
        self.checkpoint = checkpoint
        self.migrate = migrate
        registry = try AccountRegistry(folder: folder.path, address: address)
        try await finishLeaving(tellsServer: false)
        try removeDiscarded()
        if case .signedIn(let user) = registry.stage { session = try transport(of: user) }
    }

    deinit { listening?.cancel() }

    /// The user whose zones the app sees; nil while nobody has signed in.
    public var user: String? { registry.stage.user }

    /// Whether the user is signed in, so that the open zones sync.
    public var isSignedIn: Bool { session != nil }

    // MARK: Zones

    /// Opens a zone of the user, or the private zone of nobody, for the edits before the first sign-in.
    ///
    /// The same zone is opened once. It needs no network. A file is made if there is none; its rows arrive
    /// with the first sync.
    ///
    /// - Parameter zone: The zone's name in a ``ZoneSummary``, or ``privateZone``.
    /// - Returns: The zone. After a sign-in or a sign-out open it again, because another file may be current.
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` for a zone that needs a user; the errors of
    ///   ``SyncEngine`` and of the migration.
    @discardableResult public func open(_ zone: String = SyncAccount.privateZone) async throws -> AccountZone {
        try await alone {
            let zone = fileZone(zone)
            let user = registry.stage.user
            guard user != nil || zone == Self.privateZone else { throw signInNeeded }
            if let file = registry.file(of: user, zone: zone) { return try await open(file) }
            let file = AccountRegistry.File(
                name: "\(environment.newID().uuidString.lowercased()).sqlite",
                zone: zone,
                user: user
            )
            var changed = registry
            changed.files.append(file)
            try store(changed)
            return try await open(file)
        }
    }

    /// Removes a user's zone from this device, after the user has left it or deleted it.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - despiteWaitingChanges: Whether to go on although the server lacks edits.
    ///   - end: Ends the membership at the server.
    /// - Throws: ``TidemarkCore/ErrorCode/changesWait``, or an error of the request.
    func remove(_ zone: String, despiteWaitingChanges: Bool, after end: @Sendable (HTTPTransport) async throws -> Void)
        async throws
    {
        try await alone {
            let session = try requireSession()
            let file = registry.file(of: registry.stage.user, zone: zone)
            if let file { try await refuseEdits(of: [file], unless: despiteWaitingChanges) }
            do { try await end(session) } catch let error as TidemarkError {
                // An earlier call may have ended it, and its answer was lost.
                guard error.recovery == .leave || error.code == .unknownZone else { throw error }
            }
            guard let file else { return }
            try await close(file)
            try await refuseEdits(of: [file], unless: despiteWaitingChanges)
            var changed = registry
            changed.discard(file)
            try store(changed)
            try removeDiscarded()
        }
    }

    /// The open zones, also of users who are not signed in.
    var everyZone: [AccountZone] { Array(zones.values) }
    /// The open zones of the user who is signed in.
    var openZones: [AccountZone] { zones.values.filter { $0.file.user == registry.stage.user } }

    /// Returns the session of the user who is signed in.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded``.
    func requireSession() throws -> HTTPTransport {
        guard let session else { throw signInNeeded }
        return session
    }

    /// Returns a random id.
    func newID() -> UUID { environment.newID() }

    /// Returns a zone's name in its file: `~` for the private one.
    private func fileZone(_ zone: String) -> String {
        list.zones.contains { $0.zone == zone && $0.kind == .private } ? Self.privateZone : zone
    }

    // MARK: Sign-in

    /// Signs the person of the credentials in.
    ///
    /// It asks the server who that is. The private zone of nobody becomes the user's; ``EarlierEdits`` says
    /// what happens with edits if the user has a private zone here already. Files of a former user stay.
    ///
    /// - Parameters:
    ///   - earlierEdits: What happens with edits from before the sign-in, if the user has a file already.
    ///   - despiteWaitingChanges: Whether another user may be signed out although edits of that user wait.
    /// - Returns: The user's id.
    /// - Throws: ``TidemarkCore/ErrorCode/accountHasFile``, ``TidemarkCore/ErrorCode/changesWait``, or an
    ///   error of the request; nothing was changed.
    @discardableResult public func signIn(
        earlierEdits: EarlierEdits = .refused,
        despiteWaitingChanges: Bool = false
    ) async throws -> String {
        try await alone {
            let user = try await transport(of: nil).signedInUser()
            guard let stage = registry.stage.after(.signedIn(user: user)) else { throw signInNeeded }
            let nobodys = registry.file(of: nil, zone: Self.privateZone)
            let own = registry.file(of: user, zone: Self.privateZone)
            let facts = SignInPlan.Facts(
                nobodysEdits: try await edits(of: nobodys),
                ownEdits: try await edits(of: own),
                formerUsersEdits: try await editsOfFormerUser(than: user)
            )
            let plan = try SignInPlan(facts, earlierEdits: earlierEdits, despiteWaitingChanges: despiteWaitingChanges)
            var changed = registry
            changed.stage = stage
            let obsolete = plan == .discard ? nobodys : plan == .replace ? own : nil
            if let obsolete {
                try await close(obsolete)
                // The app may have edited it meanwhile.
                try await refuseEdits(of: [obsolete], unless: false)
                changed.discard(obsolete)
            }
            if let nobodys, plan == .adopt || plan == .replace { changed.give(nobodys, to: user) }
            try store(changed)
            try await beginSession(of: user)
            try removeDiscarded()
            return user
        }
    }

    /// Connects the open files of the user, and disconnects all others.
    private func beginSession(of user: String) async throws {
        let session = try transport(of: user)
        self.session = session
        list = ([], nil)
        for file in registry.files {
            guard let zone = zones[file.name] else { continue }
            if file.user == user, zone.file.user == nil {
                try await zone.database.write { try DeviceFile.bind(to: user, in: $0) }
                zones[file.name] = AccountZone(zone, file: file)
            }
            zone.transport.connect(file.user == user ? session : nil)
            await zone.sync.credentialsChanged()
        }
        restartListening()
    }

    private func editsOfFormerUser(than user: String) async throws -> Int {
        guard let former = registry.stage.user, former != user else { return 0 }
        return try await edits(of: registry.files.filter { $0.user == former })
    }

    // MARK: Sign-out

    /// Signs the user out: ends the stored token at the server if it can be reached, and forgets it here.
    ///
    /// Credentials that the app provides are the app's to forget.
    ///
    /// - Parameters:
    ///   - files: What happens with the user's files.
    ///   - despiteWaitingChanges: Whether to go on although the server lacks edits, or conflicts wait. With
    ///     ``FilesAtSignOut/remove`` they are lost.
    /// - Throws: ``TidemarkCore/ErrorCode/changesWait``; nothing was changed.
    public func signOut(_ files: FilesAtSignOut, despiteWaitingChanges: Bool = false) async throws {
        try await alone {
            guard let user = registry.stage.user,
                let stage = registry.stage.after(.signOut(removesFiles: files == .remove))
            else { throw signInNeeded }
            let own = registry.files.filter { $0.user == user }
            try await refuseEdits(of: own, unless: despiteWaitingChanges)
            if files == .remove {
                for file in own { try await close(file) }
                // The app may have edited a file meanwhile.
                try await refuseEdits(of: own, unless: despiteWaitingChanges)
            }
            var changed = registry
            changed.stage = stage
            try store(changed)
            session = nil
            list = ([], nil)
            restartListening()
            for zone in zones.values { zone.transport.connect(nil) }
            try await finishLeaving(tellsServer: true)
        }
    }

    /// Finishes a sign-out that has begun.
    private func finishLeaving(tellsServer: Bool) async throws {
        guard case .leaving(let user, let removesFiles) = registry.stage, let stage = registry.stage.after(.ended)
        else { return }
        try await transport(of: nil).forgetToken(tellsServer: tellsServer)
        try checkpoint()
        var changed = registry
        changed.stage = stage
        if removesFiles { for file in changed.files where file.user == user { changed.discard(file) } }
        try store(changed)
        try removeDiscarded()
    }

    // MARK: Files

    private func open(_ file: AccountRegistry.File) async throws -> AccountZone {
        if let zone = zones[file.name] { return zone }
        var configuration = configuration
        // The engine and other programs wait for each other, unless the app chose otherwise.
        if case .immediateError = configuration.busyMode { configuration.busyMode = .timeout(10) }
        let database = try DatabasePool(path: "\(folder)/\(file.name)", configuration: configuration)
        try await blocking { [migrate] in try migrate(database) }
        let transport = AccountTransport(server: address.hostAndPort, session)
        let sync = try await SyncEngine(
            database,
            server: server,
            zone: file.zone,
            user: file.user,
            transport: transport,
            environment: environment,
            merge: merge
        )
        let zone = AccountZone(zone: file.zone, database: database, sync: sync, file: file, transport: transport)
        zones[file.name] = zone
        if listening != nil { await sync.start(every: Self.roundInterval, isLive: false) }
        return zone
    }

    /// Stops a file's sync and closes its database.
    private func close(_ file: AccountRegistry.File) async throws {
        guard let zone = zones.removeValue(forKey: file.name) else { return }
        zone.transport.connect(nil)
        await zone.sync.stop()
        do { try zone.database.close() } catch {
            // A statement of the app is still open. It reads the removed file to its end.
            return
        }
    }

    private func edits(of file: AccountRegistry.File?) async throws -> Int? {
        guard let file else { return nil }
        return try await edits(of: [file])
    }

    /// Returns the number of change sets and conflicts in files.
    private func edits(of files: [AccountRegistry.File]) async throws -> Int {
        var count = 0
        for file in files {
            let path = "\(folder)/\(file.name)"
            let database: any DatabaseReader
            if let zone = zones[file.name] {
                database = zone.database
            } else if FileManager.default.fileExists(atPath: path) {
                database = try DatabaseQueue(path: path)
            } else {
                continue
            }
            count += try await database.read { db in
                // Without the table, the process ended before the app could edit.
                guard try db.tableExists("tidemark_device") else { return 0 }
                let status = try DeviceStatus(db)
                return status.pendingChangeSets + status.conflicts
            }
        }
        return count
    }

    private func refuseEdits(of files: [AccountRegistry.File], unless isPermitted: Bool) async throws {
        guard !isPermitted else { return }
        let count = try await edits(of: files)
        guard count == 0 else {
            throw SignInPlan.changesWait(count, fix: "Sync and resolve them first, or say despiteWaitingChanges: true.")
        }
    }

    private func store(_ changed: AccountRegistry) throws {
        try changed.store(in: folder)
        registry = changed
        try checkpoint()
    }

    private func removeDiscarded() throws {
        guard !registry.discarded.isEmpty else { return }
        for name in registry.discarded {
            SnapshotScratch.remove("\(folder)/\(name)")
            try checkpoint()
        }
        var changed = registry
        changed.discarded.removeAll { !FileManager.default.fileExists(atPath: "\(folder)/\($0)") }
        try store(changed)
    }

    private func transport(of user: String?) throws -> HTTPTransport {
        try HTTPTransport(
            url: server,
            credentials: credentials,
            user: user,
            certificateAuthorities: certificateAuthorities
        )
    }

    private var signInNeeded: TidemarkError {
        TidemarkError(
            .signInNeeded,
            "Nobody is signed in to \(address.hostAndPort).",
            fix: "Call signIn() first; without it only the private zone can be opened."
        )
    }

    // MARK: One at a time

    /// Runs `body` after all earlier calls have ended.
    private func alone<Result>(_ body: () async throws -> Result) async throws -> Result {
        if isBusy { await withCheckedContinuation { waiters.append($0) } }
        isBusy = true
        defer { if waiters.isEmpty { isBusy = false } else { waiters.removeFirst().resume() } }
        return try await body()
    }
}
