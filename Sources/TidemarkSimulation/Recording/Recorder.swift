import GRDB
import Tidemark
import TidemarkHistory
import TidemarkSQL

/// Writes the history of a run, from beside the code under test.
///
/// It reads files by plain `SELECT`, and messages by a reader of its own. The checker gets each
/// event at once.
struct Recorder {
    /// The recorder's state of a device's file.
    private struct FileState {
        var image: FileImage
        var reading: DeviceReading
        /// Whether edits were made since the last drain.
        var hasUndrained = false
        var requestsSinceHealed = 0
    }

    private var checker: HistoryChecker
    /// The judge of worlds that follow each edit, instead of the checker.
    let ledger: FateLedger?
    /// Whether tables change.
    private let migrates: Bool
    /// Whether a policy needs clocks.
    private let tellsTime: Bool
    /// The version of the zone's tables, by the text that devices keep of them.
    private var zoneVersions: [String: Int] = [:]
    private var files: [String: FileState] = [:]
    /// The recorder's state of the server's file.
    struct ZoneReading {
        var image = FileImage.empty()
        var revision: Int64 = 0
        var assigned: [String: Set<IdentityPair>] = [:]
    }

    private(set) var zone = ZoneReading()
    private var serverEpoch = ""
    private var assignedCount = 0
    private var isHealed = false
    /// The time of the next event, in microseconds.
    var now: Int64 = 0

    /// Begins a history of a zone with policies by table, and by `table.column`.
    ///
    /// Later tables have the default policy.
    init(
        policies: [String: String], version: Int = 0, tellsTime: Bool = false, migrates: Bool = false,
        ledger: FateLedger? = nil
    ) {
        self.ledger = ledger
        self.migrates = migrates
        self.tellsTime = tellsTime
        zone.image = .empty(version: version)
        let all = Migrations.versions[migrates ? Migrations.steps.count : version]
        let rulePolicies = policies.compactMapValues(Rules.Policy.init)
        let tables = all.map { table in
            let own = table.columns.map { ($0, rulePolicies["\(table.name).\($0)"]) }
            return Rules.Table(
                name: table.name, key: table.key.map { table.columns[$0] }, hasAssignedKeys: table.hasAssignedKeys,
                policy: rulePolicies[table.name] ?? .reject,
                columnPolicies: Dictionary(uniqueKeysWithValues: own).compactMapValues { $0 },
                references: table.references.map { Rules.Reference(columns: $0.columns, parent: $0.parent) },
                unique: table.unique, triggered: table.triggered, minimums: table.minimums)
        }
        checker = HistoryChecker(rules: Rules(tables: tables))
    }

    /// The number of losing values that must be kept.
    var keptValues: Int { checker.counters.keptValues }

    /// Adds an event of any kind, for actions with more facts than this recorder.
    mutating func take(_ kind: Event.Kind) throws {
        guard ledger == nil else { return }
        let event = Event(at: Double(now) / 1_000_000, kind)
        let count = checker.count
        guard let first = checker.check(event).first else { return }
        throw Finding(
            first.invariant.rawValue, actor: first.actor,
            detail: "\(first.subject): expected \(Self.short(first.expected)), "
                + "found \(Self.short(first.found)) (event \(count))")
    }

    /// Shortens a long text to its two ends.
    private static func short(_ text: String) -> String {
        text.count <= 2_000 ? text : "\(text.prefix(1_000)) [...] \(text.suffix(1_000))"
    }

    // MARK: The server

    /// Records the zone's file.
    mutating func began(_ server: SimulatedServer) throws {
        try noteTables(of: server)
        try served(server, request: nil, .success(nil))
    }

    /// Records that the server's tables were altered, and that the server has followed.
    mutating func altered(_ server: SimulatedServer) throws {
        zone.image = zone.image.migrated(to: server.version)
        try noteTables(of: server)
        try served(server, request: nil, .success(nil))
    }

    /// Records that the server's file was restored to an earlier state.
    mutating func restored(
        _ server: SimulatedServer, to reading: ZoneReading, from copy: String, devices: [SimulatedDevice]
    ) throws {
        if let ledger { return try server.read { try ledger.restored($0, from: copy, devices: devices) } }
        zone = reading
        let epoch = try server.epoch()
        try take(.restored(epoch: epoch, revision: zone.revision, copy: copy))
        try served(server, request: nil, .success(nil))
    }

    private mutating func noteTables(of server: SimulatedServer) throws {
        guard migrates else { return }
        zoneVersions[try SchemaText.encode(server.schema)] = server.version
        try take(.altered(actor: "server", Migrations.layout(server.version)))
    }

    /// Records a transaction of the server: for a request, or of its own accord.
    ///
    /// Rows that other programs wrote come with their revision.
    mutating func served(_ server: SimulatedServer, request: Int?, _ outcome: Result<[UInt8]?, Refusal>) throws {
        try server.read { try served($0, request: request, outcome, at: server.wall) }
    }

    /// Records a request in a transaction that is still open and that the server will commit.
    mutating func served(_ db: Database, request: Int?, _ outcome: Result<[UInt8]?, Refusal>, at wall: Int64) throws {
        if let ledger { return try ledger.served(db) }
        let wall = tellsTime ? wall : nil
        // Changes of other programs become a revision also when the request that brings them there is refused.
        if case .failure = outcome, zone.revision > 0, try bringsProgramsAlone(db) {
            try take(.served(serverStep(db, request: nil, .success(nil), at: wall)))
        }
        try take(.served(serverStep(db, request: request, outcome, at: wall)))
    }

    /// The code of an error with which the server answered.
    struct Refusal: Error { let code: String }

    /// Whether there are new revisions, and no device or client sent one of them.
    private func bringsProgramsAlone(_ db: Database) throws -> Bool {
        let revisions = try commits(db, after: zone.revision)
        return !revisions.isEmpty && revisions.allSatisfy { $0.changeSet == nil && $0.identity == nil }
    }

    private mutating func serverStep(
        _ db: Database, request: Int?, _ outcome: Result<[UInt8]?, Refusal>, at wall: Int64?
    ) throws -> ServerStep {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT epoch, revision, (SELECT count(*) FROM tidemark_idmap)
                    FROM tidemark_zone
                    """)
        )
        serverEpoch = row?[0] ?? ""
        assignedCount = row?[2] ?? 0
        let revision: Int64 = row?[1] ?? 0
        if case .failure(let refusal) = outcome, revision == zone.revision {
            return ServerStep(request: request, epoch: serverEpoch, revision: revision, error: refusal.code)
        }
        let isFirst = zone.revision == 0
        let commits = isFirst ? [] : try commits(db, after: zone.revision)
        let rows = revision == zone.revision ? [] : try rowChanges(db)
        zone.revision = revision
        return ServerStep(
            request: request, epoch: serverEpoch, revision: revision, commits: commits, rows: rows,
            assigned: try newIdentities(db), answer: outcome.body.map(WireReading.answer), wall: wall)
    }

    private mutating func rowChanges(_ db: Database) throws -> [RowChange] {
        let image = try FileImage(db, version: zone.image.version)
        defer { zone.image = image }
        return image.changes(since: zone.image)
    }

    private func commits(_ db: Database, after revision: Int64) throws -> [Commit] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT revision, id, device, \(Self.body), time
                    FROM tidemark_revision AS log_entry
                    WHERE revision > ?
                    ORDER BY revision
                    """),
            arguments: [revision]
        ).map { row in
            Commit(
                revision: row[0], changeSet: row[1], identity: row[2],
                changes: WireReading.changes(Array((row[3] as String).utf8)), time: tellsTime ? row[4] : 0)
        }
    }

    /// The change set of a revision `log_entry` of the log, with the pieces of a long one.
    static let body = """
        log_entry.body || coalesce((
            SELECT group_concat(text, '') FROM (
                SELECT text
                FROM tidemark_revision_rest AS piece
                WHERE piece.revision = log_entry.revision
                ORDER BY number)), '')
        """

    private mutating func newIdentities(_ db: Database) throws -> [String: [IdentityPair]] {
        guard assignedCount != zone.assigned.values.reduce(0, { $0 + $1.count }) else { return [:] }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT device, tbl, temporary, permanent FROM tidemark_idmap
                    ORDER BY device, tbl, temporary
                    """)
        )
        var new: [String: [IdentityPair]] = [:]
        for row in rows {
            let device: String = row[0]
            let wire: Int64 = row[2]
            // As in the device's tables: ids from 2^52 on travel with a minus sign.
            let temporary = wire <= -(1 << 52) ? -wire : wire
            let pair = IdentityPair(row[1], temporary: temporary, permanent: row[3])
            if zone.assigned[device, default: []].insert(pair).inserted { new[device, default: []].append(pair) }
        }
        return new
    }

    /// Records a snapshot file of the server.
    mutating func madeSnapshot(_ db: Database) throws {
        guard ledger == nil else { return }
        let header = try Row.fetchOne(db, sql: "SELECT epoch, revision FROM tidemark_snapshot")
        try take(
            .snapshot(
                epoch: header?[0] ?? "", revision: header?[1] ?? 0,
                rows: FileImage(db, version: zone.image.version).records))
    }

    // MARK: Devices

    /// Records a new device's file.
    mutating func joined(_ device: SimulatedDevice) throws {
        if let ledger { return try ledger.look(at: device) }
        let now = try device.access { try look($0, after: nil, version: device.version) }
        files[device.name] = now
        if migrates { try take(.altered(actor: device.name, Migrations.layout(device.version))) }
        try take(
            .joined(
                device: device.name, identity: now.reading.identity, epoch: now.reading.epoch,
                cursor: now.reading.cursor, rows: now.image.changes(since: .empty(version: device.version))))
    }

    /// Records an app's migration: it altered the tables, and perhaps wrote into them.
    mutating func altered(_ device: SimulatedDevice) throws {
        let image = files[device.name]?.image.migrated(to: device.version)
        files[device.name]?.image = image ?? .empty(version: device.version)
        try take(.altered(actor: device.name, Migrations.layout(device.version)))
        try edited(device)
    }

    /// Records a write into a device's file.
    mutating func edited(_ device: SimulatedDevice) throws {
        if let ledger { return try ledger.edited(device) }
        guard let old = files[device.name] else { return }
        var now = try device.access { try look($0, after: old.reading, version: device.version) }
        let rows = now.image.changes(since: old.image)
        now.hasUndrained = old.hasUndrained || !rows.isEmpty
        now.requestsSinceHealed = old.requestsSinceHealed
        files[device.name] = now
        if !rows.isEmpty { try take(.edited(device: device.name, rows)) }
    }

    /// Records a copy of a device's file.
    mutating func copied(_ device: SimulatedDevice, as name: String) throws {
        files[name] = files[device.name]
        try take(.copied(from: device.name, as: name))
    }

    /// Records a copy of the server's file.
    mutating func copiedServer(as name: String) throws {
        ledger?.copiedServer(as: name)
        try take(.copied(from: "server", as: name))
    }

    /// Records that a device has an earlier copy of its file.
    mutating func replaced(_ device: SimulatedDevice, by name: String) throws {
        if let ledger { return try ledger.replaced(device) }
        let requests = files[device.name]?.requestsSinceHealed ?? 0
        files[device.name] = files[name]
        files[device.name]?.reading.forgetCount()
        files[device.name]?.requestsSinceHealed = requests
        try take(.replaced(device: device.name, by: name))
    }

    /// Records that a device's process has ended, and its connection perhaps with it.
    mutating func crashed(_ device: SimulatedDevice) { files[device.name]?.reading.forgetCount() }

    /// Records a transaction of the engine in a device's file, if it ran one, and the ids that the app heard of.
    mutating func stepped(_ device: SimulatedDevice, _ step: String, events: [DeviceEvent] = []) throws {
        if let ledger { return try ledger.look(at: device) }
        guard let old = files[device.name] else { return }
        guard
            var now = try device.access({ db -> FileState? in
                guard db.totalChangesCount != old.reading.changes else { return nil }
                return try look(db, after: old.reading, version: device.version)
            })
        else { return }
        let captured = now.reading.captured
        let fit = try fit(of: device, now.reading, after: old.reading)
        // A captured edit without an effect is no event.
        let isNews = old.hasUndrained || captured > old.reading.captured || fit != nil
        now.hasUndrained = (old.hasUndrained || fit != nil) && captured > 0
        now.requestsSinceHealed = old.requestsSinceHealed
        files[device.name] = now
        try take(
            .stepped(
                now.reading.step(
                    device.name, step, from: old.reading, rows: now.image.changes(since: old.image),
                    renumbered: Self.pairs(events), captured: isNews ? captured : 0, resolved: [], fit: fit,
                    wall: tellsTime ? device.virtual.milliseconds : nil)))
    }

    /// The ids that the app heard of.
    private static func pairs(_ events: [DeviceEvent]) -> [IdentityPair] {
        events.flatMap { event -> [IdentityPair] in
            guard case .identitiesAssigned(let table, let ids) = event else { return [] }
            return ids.sorted { $0.key < $1.key }.map { IdentityPair(table, temporary: $0.key, permanent: $0.value) }
        }
    }

    /// Records the decision of a conflict, with an edit if the change is made again.
    mutating func resolved(_ id: String, by device: SimulatedDevice) throws {
        guard let old = files[device.name] else { return }
        var now = try device.access { try look($0, after: old.reading, version: device.version) }
        let rows = now.image.changes(since: old.image)
        now.hasUndrained = old.hasUndrained || !rows.isEmpty
        now.requestsSinceHealed = old.requestsSinceHealed
        files[device.name] = now
        if !rows.isEmpty { try take(.edited(device: device.name, rows)) }
        try take(
            .stepped(
                now.reading.step(
                    device.name, "resolve", from: old.reading, rows: [],
                    captured: now.hasUndrained ? now.reading.captured : 0, resolved: [id])))
    }

    /// The tables to which the file is fitted since a step: its own, and the zone's as it says.
    private func fit(of device: SimulatedDevice, _ now: DeviceReading, after old: DeviceReading) throws -> DeviceStep
        .Fit?
    {
        guard let fitted = now.fitted, fitted != old.fitted else { return nil }
        guard let zone = zoneVersions[fitted.zone] else {
            throw Finding("I4", actor: device.name, detail: "is fitted to tables that the zone never had")
        }
        return DeviceStep.Fit(own: device.version - device.firstVersion, zone: zone)
    }

    private func look(_ db: Database, after old: DeviceReading?, version: Int) throws -> FileState {
        FileState(
            image: try FileImage(db, version: version),
            reading: try DeviceReading(db, after: old, readsTables: migrates))
    }

    /// Records that a request left a device.
    mutating func recordRequest(_ body: [UInt8], by device: SimulatedDevice, number: Int) throws {
        if isHealed { files[device.name]?.requestsSinceHealed += 1 }
        try take(.sent(WireReading.request(body, device: device.name, number: number)))
    }

    // MARK: The end

    /// Records that all faults have stopped.
    mutating func healed() throws {
        isHealed = true
        try take(.healed)
    }

    /// Records that nothing moves any more.
    mutating func finished(_ devices: [SimulatedDevice], _ server: SimulatedServer) throws {
        if let ledger { return try server.read { try ledger.finish(devices, $0) } }
        for device in devices {
            let requests = files[device.name]?.requestsSinceHealed ?? 0
            try take(.drained(device: device.name, requests: requests))
        }
        let truth = try server.read { try FileImage($0, version: server.version).records }
        try take(.dumped(actor: "server", rows: truth))
        for device in devices {
            let rows = try device.access { try FileImage($0, version: device.version).records }
            try take(.dumped(actor: device.name, rows: rows))
        }
        try take(.finished)
    }
}

extension Result where Success == [UInt8]?, Failure == Recorder.Refusal {
    /// The answer, if there is one.
    fileprivate var body: [UInt8]? {
        if case .success(let body) = self { return body }
        return nil
    }
}
