import GRDB
import TidemarkHistory

/// Writes the history of a run, from beside the code under test.
///
/// Files are read by plain `SELECT`, messages by a reader of our own. The checker takes each event
/// at once.
struct Recorder {
    /// What is known of a device's file.
    private struct Known {
        var image: FileImage
        var reading: DeviceReading
        /// Whether edits were made since the last drain.
        var hasUndrained = false
        var requestsSinceHealed = 0
    }

    private var checker: HistoryChecker
    /// Whether what is told is checked; the checker knows no tables that change.
    private let isChecking: Bool
    private var known: [String: Known] = [:]
    private var serverImage = FileImage.empty
    private var serverRevision: Int64 = 0
    private var serverEpoch = ""
    private var assigned: [String: Set<IdentityPair>] = [:]
    private var assignedCount = 0
    private var isHealed = false
    /// The time of what comes next, in microseconds.
    var now: Int64 = 0

    /// Begins a history of a zone with tables of certain policies.
    init(policies: [String], isChecking: Bool = true) {
        self.isChecking = isChecking
        let tables = zip(ZoneSchema.tables, policies).map { table, policy in
            Rules.Table(
                name: table.name,
                key: table.key.map { table.columns[$0] },
                hasAssignedKeys: table.hasAssignedKeys,
                policy: Rules.Policy(rawValue: policy) ?? .reject,
                references: table.references.map {
                    Rules.Reference(columns: [$0.column], parent: $0.parent)
                },
                unique: table.unique
            )
        }
        checker = HistoryChecker(rules: Rules(tables: tables))
    }

    /// What the run has contained.
    var counters: TidemarkHistory.Counters { checker.counters }

    /// Whatever a run of any kind has to tell; for actions that know more than this recorder.
    mutating func take(_ kind: Event.Kind) throws {
        guard isChecking else { return }
        let event = Event(at: Double(now) / 1_000_000, kind)
        let count = checker.count
        guard let first = checker.check(event).first else { return }
        throw Finding(
            first.invariant.rawValue,
            first.actor,
            "\(first.subject): expected \(first.expected), found \(first.found) (event \(count))"
        )
    }

    // MARK: The server

    /// The zone's file is there.
    mutating func began(_ server: SimulatedServer) throws {
        try served(server, request: nil, .success(nil))
    }

    /// The server ran a transaction: for a request, or of its own accord.
    ///
    /// Rows that other programs wrote are told with the revision that they become.
    mutating func served(
        _ server: SimulatedServer,
        request: Int?,
        _ outcome: Result<[UInt8]?, Refusal>
    ) throws {
        try server.read { try served($0, request: request, outcome) }
    }

    /// The server ran a request, in a transaction that is still open and that it will commit.
    mutating func served(
        _ db: Database,
        request: Int?,
        _ outcome: Result<[UInt8]?, Refusal>
    ) throws {
        try take(.served(serverStep(db, request: request, outcome)))
    }

    /// The code of an error with which the server answered.
    struct Refusal: Error {
        let code: String
    }

    private mutating func serverStep(
        _ db: Database,
        request: Int?,
        _ outcome: Result<[UInt8]?, Refusal>
    ) throws -> ServerStep {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT epoch, revision, (SELECT count(*) FROM tidemark_idmap)
                    FROM tidemark_zone
                    """
            )
        )
        (serverEpoch, assignedCount) = (row?[0] ?? "", row?[2] ?? 0)
        let revision: Int64 = row?[1] ?? 0
        if case .failure(let refusal) = outcome, revision == serverRevision {
            return ServerStep(
                request: request,
                epoch: serverEpoch,
                revision: revision,
                error: refusal.code
            )
        }
        let isFirst = serverRevision == 0
        let commits = isFirst ? [] : try commits(db, after: serverRevision)
        let rows = revision == serverRevision ? [] : try rowChanges(db)
        serverRevision = revision
        return ServerStep(
            request: request,
            epoch: serverEpoch,
            revision: revision,
            commits: commits,
            rows: rows,
            assigned: try newIdentities(db),
            answer: outcome.body.map(WireReading.answer)
        )
    }

    private mutating func rowChanges(_ db: Database) throws -> [RowChange] {
        let image = try FileImage(db)
        defer { serverImage = image }
        return image.changes(since: serverImage)
    }

    private func commits(_ db: Database, after revision: Int64) throws -> [Commit] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT revision, id, device, body FROM tidemark_revision
                    WHERE revision > ? ORDER BY revision
                    """
            ),
            arguments: [revision]
        ).map { row in
            Commit(
                revision: row[0],
                changeSet: row[1],
                identity: row[2],
                changes: WireReading.changes(Array((row[3] as String).utf8))
            )
        }
    }

    private mutating func newIdentities(_ db: Database) throws -> [String: [IdentityPair]] {
        guard assignedCount != assigned.values.reduce(0, { $0 + $1.count }) else { return [:] }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT device, tbl, temporary, permanent FROM tidemark_idmap
                    ORDER BY device, tbl, temporary
                    """
            )
        )
        var new: [String: [IdentityPair]] = [:]
        for row in rows {
            let (device, wire): (String, Int64) = (row[0], row[2])
            // As the device's tables hold it: what counts from 2^52 travels with a minus sign.
            let temporary = wire <= -(1 << 52) ? -wire : wire
            let pair = IdentityPair(row[1], temporary: temporary, permanent: row[3])
            if assigned[device, default: []].insert(pair).inserted {
                new[device, default: []].append(pair)
            }
        }
        return new
    }

    /// The server made a snapshot file.
    mutating func madeSnapshot(_ db: Database) throws {
        let header = try Row.fetchOne(db, sql: "SELECT epoch, revision FROM tidemark_snapshot")
        try take(
            .snapshot(
                epoch: header?[0] ?? "",
                revision: header?[1] ?? 0,
                rows: FileImage(db).records
            )
        )
    }

    // MARK: Devices

    /// A device's file is there.
    mutating func joined(_ device: SimulatedDevice) throws {
        let now = try device.access { try look($0, after: nil) }
        known[device.name] = now
        try take(
            .joined(
                device: device.name,
                identity: now.reading.identity,
                epoch: now.reading.epoch,
                cursor: now.reading.cursor,
                rows: now.image.changes(since: .empty)
            )
        )
    }

    /// Somebody wrote into a device's file.
    mutating func edited(_ device: SimulatedDevice) throws {
        guard let old = known[device.name] else { return }
        var now = try device.access { try look($0, after: old.reading) }
        let rows = now.image.changes(since: old.image)
        now.hasUndrained = old.hasUndrained || !rows.isEmpty
        now.requestsSinceHealed = old.requestsSinceHealed
        known[device.name] = now
        if !rows.isEmpty { try take(.edited(device: device.name, rows)) }
    }

    /// A device's process has ended, and its connection perhaps with it.
    mutating func crashed(_ device: SimulatedDevice) { known[device.name]?.reading.forgetCount() }

    /// The engine ran a transaction in a device's file, if it did.
    mutating func stepped(
        _ device: SimulatedDevice,
        _ step: String
    ) throws {
        guard let old = known[device.name] else { return }
        guard
            var now = try device.access({ db -> Known? in
                guard db.totalChangesCount != old.reading.changes else { return nil }
                return try look(db, after: old.reading)
            })
        else { return }
        let captured = now.reading.captured
        // A capture of an edit that changed nothing is no news.
        let isNews = old.hasUndrained || captured > old.reading.captured
        now.hasUndrained = old.hasUndrained && captured > 0
        now.requestsSinceHealed = old.requestsSinceHealed
        known[device.name] = now
        try take(
            .stepped(
                now.reading.step(
                    device.name,
                    step,
                    from: old.reading,
                    rows: now.image.changes(since: old.image),
                    captured: isNews ? captured : 0,
                    resolved: []
                )
            )
        )
    }

    /// Somebody decided what becomes of a conflict: an edit, if it is made again.
    mutating func resolved(_ id: String, by device: SimulatedDevice) throws {
        guard let old = known[device.name] else { return }
        var now = try device.access { try look($0, after: old.reading) }
        let rows = now.image.changes(since: old.image)
        now.hasUndrained = old.hasUndrained || !rows.isEmpty
        now.requestsSinceHealed = old.requestsSinceHealed
        known[device.name] = now
        if !rows.isEmpty { try take(.edited(device: device.name, rows)) }
        try take(
            .stepped(
                now.reading.step(
                    device.name,
                    "resolve",
                    from: old.reading,
                    rows: [],
                    captured: now.hasUndrained ? now.reading.captured : 0,
                    resolved: [id]
                )
            )
        )
    }

    private func look(_ db: Database, after old: DeviceReading?) throws -> Known {
        Known(image: try FileImage(db), reading: try DeviceReading(db, after: old))
    }

    /// A request left a device.
    mutating func sent(_ body: [UInt8], by device: SimulatedDevice, number: Int) throws {
        if isHealed { known[device.name]?.requestsSinceHealed += 1 }
        try take(.sent(WireReading.request(body, device: device.name, number: number)))
    }

    // MARK: The end

    /// All faults have stopped.
    mutating func healed() throws {
        isHealed = true
        try take(.healed)
    }

    /// Nothing moves any more.
    mutating func finished(_ devices: [SimulatedDevice], _ server: SimulatedServer) throws {
        for device in devices {
            let requests = known[device.name]?.requestsSinceHealed ?? 0
            try take(.drained(device: device.name, requests: requests))
        }
        let truth = try server.read { try FileImage($0).records }
        try take(.dumped(actor: "server", rows: truth))
        for device in devices {
            let rows = try device.access { try FileImage($0).records }
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
