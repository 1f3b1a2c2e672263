import ArgumentParser
import CoreMetrics
import Foundation
import Logging
import TidemarkCore
import TidemarkServer
import TidemarkPostgres
import TidemarkRedis
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTerminal

/// `tidemark serve`: serves a SQLite file or a PostgreSQL database.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serve a SQLite file, or start an empty zone from a schema.",
        discussion: """
            The server adopts an existing file unchanged: its tables, keys, foreign keys, UNIQUE and CHECK \
            constraints; its rows become revision 1. The file stays an ordinary SQLite file. The server also captures \
            and syncs other programs' changes to it.

            If tables cannot be synced, the command names all of them, each with the SQL that cures it.

              tidemark serve chinook.sqlite
              tidemark serve --schema schema.sql --data ./data --listen 127.0.0.1:9000
              tidemark serve --store postgres://app@localhost/app --schema schema.sql
              tidemark serve --store postgres://app@localhost/app --adopt
              tidemark serve chinook.sqlite --store postgres://app@localhost/app

            Other machines reach the server only if it has users and encryption:

              tidemark serve chinook.sqlite --users --listen 0.0.0.0:8443 --tls-certificate cert.pem --tls-key key.pem
            """)

    @Argument(help: "The SQLite file to adopt and serve.") var file: String?

    @Option(
        help: ArgumentHelp(
            "Start empty from a file of CREATE TABLE statements.",
            discussion: "Later, creates the tables and columns that the store does not have yet.", valueName: "file.sql"
        )) var schema: String?

    @Option(help: ArgumentHelp("A PostgreSQL database, by libpq's rules; its tables hold the rows.", valueName: "url"))
    var store: String?

    @Option(
        help: ArgumentHelp(
            "With --store, a Redis or Valkey through which nodes share recent change sets.",
            discussion: "If Redis loses its data or is unreachable, no change is lost and no request waits.",
            valueName: "url")) var redis: String?

    @Option(
        help: ArgumentHelp(
            "With --store, a zone to create if it does not exist; may be repeated. Without it, main.", valueName: "name"
        )) var zone: [String] = []

    @Flag(
        help: ArgumentHelp(
            "With --store, adopt the database's existing tables, once.",
            discussion: "They stay unchanged, and other programs can still use them.")) var adopt = false

    @Option(
        help: ArgumentHelp(
            """
            With --adopt, the column that holds the zone, first in every primary key. Without it, all rows belong to \
            zone main.
            """,
            valueName: "column")
    ) var zoneColumn: String?

    @Option(
        help: ArgumentHelp(
            """
            With --adopt, how devices store types that SQLite lacks: standard, django, sqlalchemy, rails, or \
            table.column=TYPE; may be repeated.
            """,
            valueName: "types")
    ) var deviceTypes: [String] = []

    @Option(help: ArgumentHelp("The folder for the zone's file, with --schema.", valueName: "folder")) var data: String?

    @Option(help: ArgumentHelp("Where to listen; port 0 takes a free one.", valueName: "host:port")) var listen =
        "127.0.0.1:8080"

    @Option(help: ArgumentHelp("A table to leave local to the file; may be repeated.", valueName: "table")) var exclude:
        [String] = []

    @OptionGroup var identity: IdentityOptions
    @OptionGroup var encryption: EncryptionOptions
    @OptionGroup var browsers: BrowserOptions
    @OptionGroup var dashboard: DashboardOptions
    @OptionGroup var keys: KeyOptions
    @OptionGroup var policies: PolicyOptions
    @OptionGroup var objects: ObjectOptions

    @Flag(
        help: ArgumentHelp(
            "The file was restored from a backup: start a new history, once.",
            discussion: "Devices sync again, and send the changes that the backup lacks.")) var restored = false

    @Option(
        help: ArgumentHelp(
            "Keep at least the latest N revisions; devices further behind take a snapshot. Without it, all.",
            valueName: "N")) var keepRevisions: Int?

    @Option(
        help: ArgumentHelp(
            """
            Let new devices start with a snapshot up to N revisions old while the server builds the next; with 0, they \
            wait for it.
            """,
            discussion: "Later changes arrive with their first sync.",
            valueName: "N")
    ) var snapshotBehind: Int64 = 0

    @Option(
        help: ArgumentHelp(
            "A column that was renamed in the file, as table.old=table.new; needed once; may be repeated.",
            valueName: "table.old=table.new")) var rename: [String] = []

    @Option(
        help: ArgumentHelp(
            "After SIGTERM, continue for this time while /readyz answers 503, so that a load balancer notices.",
            valueName: "seconds")) var drain = 0.0

    @Option(
        help: ArgumentHelp(
            "The memory for requests and answers in flight; further clients are asked to retry later.", valueName: "MiB"
        )) var memory = Limits.standard.inFlightBytesMax >> 20

    @Option(
        help: ArgumentHelp(
            "The largest accepted value of a column; larger ones are parked on their device.", valueName: "MiB"))
    var valueMax = Limits.standard.valueBytesMax >> 20
    @Flag(help: "Log every request.") var verbose = false

    func validate() throws {
        guard (keepRevisions ?? 0) >= 0 else {
            throw ValidationError("--keep-revisions is a number of revisions, from 0.")
        }
        guard (1...1 << 20).contains(memory) else { throw ValidationError("--memory is a number of MiB, from 1.") }
        guard (1...1_024).contains(valueMax) else {
            throw ValidationError("--value-max is a number of MiB, from 1 to 1024.")
        }
        guard snapshotBehind >= 0 else { throw ValidationError("--snapshot-behind is a number of revisions, from 0.") }
        guard (0...3_600).contains(drain) else {
            throw ValidationError("--drain is a number of seconds, up to an hour.")
        }
        if let store, !store.hasPrefix("postgres://"), !store.hasPrefix("postgresql://"), !store.contains("=") {
            throw ValidationError(
                """
                --store begins with postgres://, or is made of libpq's keyword=value; a SQLite file is given without \
                it: tidemark serve FILE.
                """)
        }
        guard store == nil else {
            guard data == nil, rename.isEmpty, objects.isEmpty else {
                throw ValidationError(
                    "--data, --rename, --trigger and --collation belong to the embedded store, not to --store.")
            }
            guard [file != nil, schema != nil, adopt].filter({ $0 }).count <= 1 else {
                throw ValidationError("Give one of a file, --schema and --adopt.")
            }
            guard adopt || deviceTypes.isEmpty else { throw ValidationError("--device-types belongs to --adopt.") }
            guard adopt || zoneColumn == nil else { throw ValidationError("--zone-column belongs to --adopt.") }
            return
        }
        guard zone.isEmpty, !adopt, zoneColumn == nil, deviceTypes.isEmpty, redis == nil else {
            throw ValidationError("--zone, --adopt, --zone-column, --device-types and --redis belong to --store.")
        }
        guard (file != nil) != (schema != nil) else {
            throw ValidationError("Give either a SQLite file, --schema FILE.sql with --data DIR, or --store URL.")
        }
        guard (schema != nil) == (data != nil) else { throw ValidationError("--schema and --data belong together.") }
    }

    func run() async throws {
        Terminal.outliveReaders()
        try await Terminal.run {
            let address = try ListenAddress(listen)
            try ListenSafety(host: address.host, identity: identity.identity, encryption: encryption.encryption)
                .require(place: accessLocation.arguments)
            let tls = try encryption.tls()
            let proxies = try encryption.proxies()
            let browsers = try browsers.policy()
            let pages = try dashboard.pages()
            var logger = Logger(label: "tidemark") { StreamLogHandler.standardError(label: $0) }
            logger.logLevel = verbose ? .info : .warning
            let registry = PrometheusRegistry()
            MetricsSystem.bootstrap(registry)
            try await identity.check(accessLocation)
            let store = try await openStore(logger)
            let access = try await identity.open(accessLocation, host: store.host, logger: logger)
            for line in store.lines + access.lines { Terminal.line(line) }
            for warning in encryption.warnings(about: tls) + store.warnings { Terminal.note("warning: \(warning)") }
            let application = TidemarkServerApplication(
                service: store.service, gate: access.gate, rates: access.rates, host: address.host, port: address.port,
                tls: tls, proxies: proxies, browsers: browsers, pages: pages, limits: limits, drain: .seconds(drain),
                exposition: MachineMetrics(registry, started: SystemClock.milliseconds(), files: try dataFiles()).text,
                onHangUp: access.onHangUp, logger: logger)
            try await access.run {
                try await application.run { port in
                    Terminal.line("listening on \(address.url(port: port, isEncrypted: tls != nil))")
                }
            }
            try await store.close()
            try access.close()
        }
    }

    /// The paths of the zones' files, and of the folders with such files.
    private func dataFiles() throws -> [String] {
        guard store == nil else { return [] }
        return [try zonePath(), (file.map(DataPlaces.init(file:)) ?? DataPlaces(folder: data ?? ".")).zones]
    }

    private var accessLocation: AccessLocation {
        if let store { return .store(store) }
        return file.map(AccessLocation.file) ?? .folder(data ?? ".")
    }

    /// An open store, and the lines to print about it.
    private struct OpenStore {
        let service: any SyncService
        /// The store, if it makes zones while the server runs.
        let host: (any ZoneHost)?
        let lines: [String]
        var warnings: [String] = []
        let close: @Sendable () async throws -> Void
    }

    private var limits: Limits {
        var limits = Limits.standard
        limits.revisionsKept = keepRevisions
        limits.snapshotRevisionsBehindMax = snapshotBehind
        limits.inFlightBytesMax = memory << 20
        limits.valueBytesMax = valueMax << 20
        return limits
    }

    private func openStore(_ logger: Logger) async throws -> OpenStore {
        let limits = limits
        guard let store else { return try await openFile(limits, logger) }
        var options = PostgresStore.Options(address: store, newEpoch: UUID())
        options.filePath = try file.map { try Self.requireFile($0) }
        options.schemaSQL = try schema.map { try Self.text(of: $0) }
        options.policies = try policies.read()
        options.limits = limits
        options.logger = logger
        if !zone.isEmpty { options.zones = zone }
        options.adopts = adopt
        options.zoneColumn = zoneColumn
        if !deviceTypes.isEmpty { options.deviceTypes = try DeviceTypes(deviceTypes) }
        options.isRestored = restored
        options.excluding = Set(exclude)
        options.keys = try keys.read()
        options.shared = try redis.map { RedisCache(try RedisAddress($0), logger: logger) }
        let postgresStore = try await PostgresStore(options)
        var lines = postgresStore.additions.map { "made the \($0)" }
        lines += postgresStore.policyChanges.map(\.description)
        for zone in options.zones {
            let state = try await postgresStore.state(zone: zone)
            lines.append(Self.summary(postgresStore.schema, state, zone: zone))
        }
        return OpenStore(service: postgresStore, host: postgresStore, lines: lines) { await postgresStore.close() }
    }

    private func openFile(_ limits: Limits, _ logger: Logger) async throws -> OpenStore {
        let store = try EmbeddedStore(
            path: try zonePath(), schemaSQL: try schema.map { try Self.text(of: $0) }, newEpoch: UUID(),
            isRestored: restored, excluding: Set(exclude), keys: try keys.read(), policies: try policies.read(),
            renames: try renames(), objects: try objects.read(), limits: limits, warn: { logger.error("\($0)") })
        var lines = [Self.summary(store.schema, try await store.state(), zone: nil)]
        lines += store.additions.map { "made the \($0)" } + Self.ignored(store.ignoredDifferences, path: store.path)
        if !store.skippedTables.isEmpty { lines.append("not synced: \(store.skippedTables.joined(separator: ", "))") }
        lines += Self.hints(store.undeclaredReferences)
        lines += store.policyChanges.map(\.description)
        if !store.programCalls.isEmpty {
            lines.append(
                """
                hint: a device leaves out what calls a function that only the program has, unless it joins with \
                --function NAME: \(store.programCalls.joined(separator: ", "))
                """)
        }
        lines += store.warnings.map { "warning: \($0.table) \($0.reason); device change sets that need it are refused" }
        guard identity.identity == .users else {
            return OpenStore(service: store, host: nil, lines: lines) { try await Self.close(store) }
        }
        let directory = ZoneDirectory(
            main: store,
            folder: URL(filePath: (data.map(DataPlaces.init(folder:)) ?? DataPlaces(file: store.path)).zones),
            limits: limits, warn: { logger.error("\($0)") })
        if restored { lines += try await directory.beginNewHistories().map { "warning: \($0)" } }
        return OpenStore(service: directory, host: directory, lines: lines, warnings: Self.readableFiles(store.path)) {
            await directory.closeZones()
            try await Self.close(store)
        }
    }

    /// Warns of a served file that accounts of the machine can read, whatever their rights in the zone.
    private static func readableFiles(_ path: String) -> [String] {
        guard PrivateFile.isOpenToAll(path) else { return [] }
        return ["every account of this machine can read \(path), whatever --users says; chmod -R go= it and its zones"]
    }

    private static func close(_ store: EmbeddedStore) async throws {
        guard try await !store.close() else { return }
        Terminal.note(
            """
            Another program reads the file, so its latest commits are in its -wal; copy both, or use `tidemark \
            backup`.
            """)
    }

    /// Names what the schema has and the file has otherwise.
    private static func ignored(_ differences: [String], path: String) -> [String] {
        guard !differences.isEmpty else { return [] }
        let advice = "A schema adds tables and columns only. Make other changes in \(path); the server follows them."
        return differences.map { "ignored in the schema: \($0)" } + [advice]
    }

    /// Names undeclared references and their declarations, aligned.
    private static func hints(_ references: [UndeclaredReference]) -> [String] {
        guard !references.isEmpty else { return [] }
        let columns = references.map { "\($0.table).\($0.column)" }
        let width = columns.map(\.count).max() ?? 0
        let lines = zip(references, columns).map { reference, column in
            let space = String(repeating: " ", count: width - column.count)
            return "  \(column)\(space)  REFERENCES \(reference.parent) (\(reference.parentKey))"
        }
        return ["hint: devices check and follow declared references only; declare these in CREATE TABLE:"] + lines
    }

    private static func summary(_ schema: SyncSchema, _ state: ZoneState, zone: String?) -> String {
        let tables = schema.tables.count
        return "serving \(tables) table\(tables == 1 ? "" : "s")" + (zone.map { " of zone \($0)" } ?? "")
            + " at revision \(state.revision)"
    }

    /// Parses renames: `notes.text=notes.body`, or shorter `notes.text=body`.
    private func renames() throws -> [ColumnRename] {
        try rename.map { text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            let table = parts[0].split(separator: ".").first.map(String.init) ?? ""
            let new = parts.count == 2 ? parts[1] : ""
            return try ColumnRename(parts[0], to: new.contains(".") ? new : "\(table).\(new)")
        }
    }

    private func zonePath() throws -> String {
        if let file { return try Self.requireFile(file) }
        let folder = data ?? "."
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        return "\(folder)/\(EmbeddedStore.zoneName).sqlite"
    }

    private static func requireFile(_ file: String) throws -> String {
        try ExistingFile.require(file, fix: "Check the path, or start an empty zone with --schema FILE.sql --data DIR.")
        return file
    }

    private static func text(of path: String) throws -> String {
        let fix = "Give a UTF-8 file of CREATE TABLE statements."
        try ExistingFile.require(path, fix: fix)
        guard let text = String(data: try Data(contentsOf: URL(filePath: path)), encoding: .utf8) else {
            throw TidemarkError(.unusableFile, "The schema \(path) is no UTF-8 text.", fix: fix)
        }
        return text
    }
}
