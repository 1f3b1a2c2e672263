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
    /// The user's private zone, by the name in each path and command.
    public static let privateZone = ZoneKind.privateAlias

    /// What happens with the user's files at a sign-out.
    public enum FilesAtSignOut: Hashable, Sendable {
        /// They stay. The app can read and edit them, and the same user can sign in again and go on.
        case stay
        /// They are removed from the device.
        case remove
    }

    let address: ServerAddress
    let server: String
    let folder: String
    let credentials: Credentials
    let name: String?
    let certificateAuthorities: String?
    let configuration: Configuration
    let environment: SyncEngine.Environment
    let merges: [any RecordMerging]
    let migrate: @Sendable (DatabasePool) throws -> Void
    nonisolated let lists = Broadcast<[ZoneSummary]>()

    // MARK: State: touched on the actor only

    var registry: AccountRegistry
    /// The open files by name.
    var zones: [String: AccountZone] = [:]
    /// The transport with the credentials of the signed-in user.
    var session: HTTPTransport?
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
    ///   - name: The name of the device for the server's operators, 1 to 100 characters; nil for none.
    ///   - certificateAuthorities: The path of a PEM file with authorities to trust in place of the system's.
    ///   - configuration: The configuration of the databases.
    ///   - environment: Time and randomness.
    ///   - merges: As in ``SyncEngine``.
    ///   - migrate: Makes the app's tables in a database, or migrates them. It may not insert rows: the
    ///     server's rows arrive with the first sync.
    /// - Throws: ``TidemarkCore/TidemarkError`` for an invalid URL, or a folder of another server.
    public init(
        server: String, folder: URL, credentials: Credentials, name: String? = nil,
        certificateAuthorities: String? = nil, configuration: Configuration = Configuration(),
        environment: SyncEngine.Environment = .system, merges: [any RecordMerging] = [],
        migrate: @escaping @Sendable (DatabasePool) throws -> Void
    ) async throws {
        address = try ServerAddress(server)
        self.server = server
        self.folder = folder.path
        self.credentials = credentials
        if let name { try DeviceName.require(name) }
        self.name = name
        self.certificateAuthorities = certificateAuthorities
        self.configuration = configuration
        self.environment = environment
        self.merges = merges
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
                name: "\(environment.newID().uuidString.lowercased()).sqlite", zone: zone, user: user)
            var changed = registry
            changed.files.append(file)
            try store(changed)
            return try await open(file)
        }
    }

    /// Removes a zone from this device, after `end` has ended the membership at the server; throws `changesWait`.
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

    var openZones: [AccountZone] { zones.values.filter { $0.file.user == registry.stage.user } }

    /// Throws ``TidemarkCore/ErrorCode/signInNeeded`` if nobody is signed in.
    func requireSession() throws -> HTTPTransport {
        guard let session else { throw signInNeeded }
        return session
    }

    /// Returns a zone's name in its file: `~` for the private one.
    private func fileZone(_ zone: String) -> String {
        list.zones.contains { $0.zone == zone && $0.kind == .private } ? Self.privateZone : zone
    }

    // MARK: One at a time

    /// Runs `body` after all earlier calls have ended.
    func alone<Result>(_ body: () async throws -> Result) async throws -> Result {
        if isBusy { await withCheckedContinuation { waiters.append($0) } }
        isBusy = true
        defer { if waiters.isEmpty { isBusy = false } else { waiters.removeFirst().resume() } }
        return try await body()
    }
}
