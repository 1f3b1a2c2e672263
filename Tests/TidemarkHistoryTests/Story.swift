import Testing
import TidemarkHistory

/// Writes histories by hand: each function appends the events of an honest recorder.
///
/// The world is a league: team 1 with players 1 and 2, and notes whose columns merge.
struct Story {
    static let rules = Rules(
        tables: [
            Rules.Table(name: "team", key: ["id"], hasAssignedKeys: true, unique: [["name"]]),
            Rules.Table(
                name: "player", key: ["id"], hasAssignedKeys: true,
                references: [Rules.Reference(columns: ["team_id"], parent: "team")]),
            Rules.Table(name: "note", key: ["id"], hasAssignedKeys: false, policy: .columns),
            Rules.Table(name: "memo", key: ["id"], hasAssignedKeys: false, policy: .lastWriter),
            Rules.Table(name: "photo", key: ["id"], hasAssignedKeys: true, policy: .lastWriter),
            Rules.Table(name: "wish", key: ["id"], hasAssignedKeys: false, policy: .latest),
            Rules.Table(name: "seat", key: ["id"], hasAssignedKeys: false, policy: .latest, unique: [["place"]]),
            Rules.Table(
                name: "stock", key: ["id"], hasAssignedKeys: false, columnPolicies: ["amount": .add],
                minimums: ["amount": 0]),
        ],
        caps: ["outbox": 10],
        requestsToDrainMax: 5,
        secondsToDrainMax: 60
    )

    static let kiel = team(1, "\"Kiel\"")
    static let anna = player(1, team: 1, "\"Anna\"")
    static let ben = player(2, team: 1, "\"Ben\"")
    static let paper = note("\"n\"", "1", "2")

    private(set) var history = History(rules: rules)
    private var time = 0.0

    /// The columns of the tables, and additional ones of the notes, each with its default.
    static func layout(_ more: Cells = [:]) -> Layout {
        let null = { (names: [String]) in Cells(uniqueKeysWithValues: names.map { ($0, "null") }) }
        return Layout([
            "team": null(["id", "name"]), "player": null(["id", "team_id", "name"]),
            "note": null(["id", "a", "b"]).merging(more) { $1 },
        ])
    }

    /// A zone at revision 1 with the rows of the league, and two devices that have joined.
    ///
    /// With `alters`, the history includes table layouts, because a table changes later.
    init(alters: Bool = false, more: [Example] = []) {
        if alters { for actor in ["server", "a", "b"] { add(.altered(actor: actor, Story.layout())) } }
        let rows = [Story.kiel, Story.anna, Story.ben, Story.paper] + more
        served(nil, revision: 1, rows: rows.map { RowChange($0.id, before: nil, after: $0.row) })
        for device in ["a", "b"] {
            add(
                .joined(
                    device: device, identity: "uuid-" + device, epoch: "e", cursor: 1,
                    rows: rows.map { RowChange($0.id, before: nil, after: $0.row) }))
        }
    }

    mutating func add(_ kind: Event.Kind) {
        time += 1
        history.append(Event(at: time, kind))
    }

    mutating func edited(_ device: String, _ changes: RowChange...) { add(.edited(device: device, changes)) }

    /// A transaction of the engine.
    mutating func stepped(
        _ device: String, _ step: String = "apply", cursor: Int64, epoch: String = "e", rows: [RowChange] = [],
        outbox: [OutboxSet]? = nil, conflicts: [ParkedSet]? = nil, identities: [IdentityPair] = [],
        renumbered: [IdentityPair] = [], captured: Int = 0, resolved: [String] = [], identity: String? = nil,
        fit: DeviceStep.Fit? = nil, wall: Int64? = nil
    ) {
        add(
            .stepped(
                DeviceStep(
                    device: device, step: step, identity: identity ?? "uuid-" + device, epoch: epoch, cursor: cursor,
                    rows: rows, outbox: outbox, conflicts: conflicts, identities: identities, renumbered: renumbered,
                    captured: captured, resolved: resolved, fit: fit, wall: wall)))
    }

    mutating func sent(
        _ device: String, _ number: Int, at revision: Int64, epoch: String = "e", _ sets: [OutboxSet] = []
    ) {
        add(
            .sent(
                Request(
                    device: device, number: number, maxRevision: revision, epoch: epoch,
                    changeSets: sets.map { ($0.id, $0.wire ?? "") })))
    }

    /// A transaction of the server.
    mutating func served(
        _ request: Int?, revision: Int64, epoch: String = "e", commits: [Commit] = [], rows: [RowChange] = [],
        assigned: [String: [IdentityPair]] = [:], replies: [Reply]? = nil, error: String? = nil
    ) {
        add(
            .served(
                ServerStep(
                    request: request, epoch: epoch, revision: revision, commits: commits, rows: rows,
                    assigned: assigned,
                    answer: replies.map { Answer(epoch: epoch, maxRevision: revision, replies: $0) }, error: error)))
    }

    /// The checker's findings, one line a violation.
    var violations: [Violation] { history.violations() }

    /// Expects that the checker's first finding breaks `invariant`.
    func expect(
        _ invariant: Violation.Invariant, _ fragment: String = "", _ location: SourceLocation = #_sourceLocation
    ) {
        let found = violations
        #expect(found.first?.invariant == invariant, "\(found)", sourceLocation: location)
        #expect("\(found)".contains(fragment), "\(found)", sourceLocation: location)
    }

    /// Expects that the checker finds nothing.
    func expectNothing(_ location: SourceLocation = #_sourceLocation) {
        #expect(violations.isEmpty, "\(violations)", sourceLocation: location)
    }
}

extension OutboxSet {
    /// A change set as sent: each change with its base.
    init(frozen id: String, after: [String] = [], changes: [RecordChange]) {
        let bases = changes.filter { $0.operation != .create }.compactMap(\.base)
        let wire = "{\(id)\(bases.map { " \"revision\":\($0)" }.joined())}"
        self.init(id: id, after: after, changes: changes, wire: wire)
    }
}

/// A row with its id.
struct Example {
    let id: RecordID
    let row: Cells

    /// The row with some columns changed.
    func with(_ cells: Cells) -> Example { Example(id: id, row: row.merging(cells) { $1 }) }

    /// The change from this row to another one.
    func to(_ other: Example?) -> RowChange { RowChange(id, before: row, after: other?.row) }

    /// The creation of this row.
    var made: RowChange { RowChange(id, before: nil, after: row) }
}

func team(_ id: Int64, _ name: String) -> Example {
    Example(id: RecordID("team", "\(id)"), row: ["id": "\(id)", "name": name])
}

func player(_ id: Int64, team: Int64, _ name: String) -> Example {
    Example(id: RecordID("player", "\(id)"), row: ["id": "\(id)", "team_id": "\(team)", "name": name])
}

func note(_ id: String, _ a: String, _ b: String) -> Example {
    Example(id: RecordID("note", id), row: ["id": id, "a": a, "b": b])
}

func update(_ record: Example, _ cells: Cells, base: Int64? = nil) -> RecordChange {
    RecordChange(record.id, operation: .update, cells: cells, base: base)
}

func create(_ record: Example) -> RecordChange {
    RecordChange(record.id, operation: .create, cells: record.row.filter { $0.key != "id" })
}

func delete(_ record: Example, base: Int64? = nil) -> RecordChange {
    RecordChange(record.id, operation: .delete, base: base)
}
