import TidemarkCore
import TidemarkEngine

/// What the books said when a transaction began: the answers to all questions that a group of requests will ask.
struct Beginning {
    /// The revision of rows that existed before the zone.
    var adopted: Int64 = 0
    /// The zone's stored state.
    var state: ZoneState?
    /// The stored number of notes.
    var notes: Int64 = 0
    /// The head, until the transaction changes it.
    var head: CommitHead?
    var facts = Facts()
    /// The latest change sets from the oldest revision of a requesting device on, by revision.
    private(set) var recent: [Int64: (device: String?, body: String)] = [:]
    /// Stored fingerprints, by revision.
    var fingerprints: [Int64: Fingerprint] = [:]

    /// The maximum number of revisions to read.
    private static let revisionsMax: Int64 = 64
    /// The maximum size of the revisions to read, in bytes.
    private static let bytesMax = 1 << 20

    /// The chain and fingerprint of the latest revision, and whether other programs have changed rows.
    static let zoneHeadSQL = """
        SELECT (SELECT latest.chain FROM tidemark.revision AS latest
                WHERE latest.zone = $1 AND latest.revision = zone.revision),
            (SELECT stored.fingerprint FROM tidemark.fingerprint AS stored
                WHERE stored.zone = $1 AND stored.revision = zone.revision AND stored.shape = $2),
            EXISTS (SELECT 1 FROM tidemark.outside AS outside WHERE outside.zone = $1)
        FROM tidemark.zone AS zone
        WHERE zone.zone = $1
        """

    init() {}

    // MARK: Questions

    /// The statements of the questions, in the order of ``init(_:of:_:adopted:notes:)``.
    static func statements(_ query: FactsQuery, _ served: PostgresSchema, zone: String) -> [PostgresStatement] {
        let devices = PostgresArray.quoted(query.devices.sorted())
        let names = temporaryNames(query, served.schema)
        // A revision far ahead is refused; the sum with it must not overflow.
        let oldest = query.oldest.map { String(min($0, 1 << 60)) }
        var statements = [PostgresStatement(zoneHeadSQL, [zone, served.fingerprintLayoutHash])]
        guard oldest != nil else { return statements }
        statements += [
            PostgresStatement(
                """
                SELECT asked.device, lap.lap, lap.revision, lap.user_id, EXISTS (
                    SELECT 1 FROM tidemark.overruled AS note WHERE note.zone = $1 AND note.device = asked.device)
                FROM unnest($2::text[]) AS asked (device)
                LEFT JOIN tidemark.lap AS lap ON lap.zone = $1 AND lap.device = asked.device
                """,
                [zone, devices]
            ),
            PostgresStatement(
                "\(Verdict.sql) AND id = ANY ($2::text[])",
                [zone, PostgresArray.quoted(query.changeSets)]
            ),
            PostgresStatement(
                """
                SELECT known.device, known.tbl, known.temporary, known.permanent
                FROM unnest($2::text[], $3::text[], $4::bigint[]) AS wanted (device, tbl, temporary)
                JOIN tidemark.idmap AS known ON known.zone = $1 AND known.device = wanted.device
                    AND known.tbl = wanted.tbl AND known.temporary = wanted.temporary
                """,
                [zone, names.devices, names.tables, names.ids]
            ),
            PostgresStatement(
                """
                SELECT revision, device, body, chain, previous
                FROM (
                    SELECT entry.revision, entry.device, entry.body, entry.chain,
                        nullif(before.chain, '') AS previous,
                        sum(octet_length(entry.body)) OVER (ORDER BY entry.revision) AS bytes
                    FROM tidemark.revision AS entry
                    LEFT JOIN tidemark.revision AS before
                        ON before.zone = entry.zone AND before.revision = entry.revision - 1
                    WHERE entry.zone = $1 AND entry.revision > $2::bigint
                        AND entry.revision <= $2::bigint + \(revisionsMax)
                ) AS measured
                WHERE bytes <= \(bytesMax)
                ORDER BY revision
                """,
                [zone, oldest]
            ),
            PostgresStatement(
                """
                SELECT revision, fingerprint
                FROM tidemark.fingerprint
                WHERE zone = $1 AND revision BETWEEN $2::bigint AND $2::bigint + \(revisionsMax) AND shape = $3
                """,
                [zone, oldest, served.fingerprintLayoutHash]
            ),
        ]
        return statements
    }

    /// Returns the temporary names of a query as arrays.
    private static func temporaryNames(_ query: FactsQuery, _ schema: SyncSchema)
        -> (devices: String, tables: String, ids: String)
    {
        var devices: [String] = []
        var names: [TemporaryName] = []
        for (device, wanted) in query.temporaryIDs.mapValues(Array.init).merging(
            query.newTemporaryIDs,
            uniquingKeysWith: +
        ) {
            devices += Array(repeating: device, count: wanted.count)
            names += wanted
        }
        return (
            PostgresArray.quoted(devices), PostgresArray.quoted(names.map { schema.tables[$0.table].name }),
            PostgresArray.numbers(names.map(\.id))
        )
    }

    // MARK: Answers

    /// Reads the results of ``statements(_:_:zone:)``.
    init(
        _ results: ArraySlice<PostgresRows>,
        of state: ZoneState,
        _ schema: SyncSchema,
        adopted: Int64,
        notes: Int64
    ) throws {
        self.state = state
        self.adopted = adopted
        self.notes = notes
        let results = Array(results)
        let row = results[0][0]
        let fingerprint = row[1].flatMap(Fingerprint.init(hex:))
        head = CommitHead(
            state: state,
            chain: row.text(0),
            fingerprint: fingerprint,
            hasOutsideChanges: row.isTrue(2)
        )
        fingerprints[state.revision] = fingerprint
        guard results.count > 1 else { return }
        for row in results[1].map({ $0 }) {
            if row.isTrue(4) { facts.devicesWithNotes.insert(row.text(0)) }
            guard let lap = row[1] else { continue }
            facts.exchanges[row.text(0)] = Exchange(lap: lap, revision: row.integer(2) ?? 0, user: row[3])
        }
        for row in results[2].map({ $0 }) { facts.verdicts[row.text(0)] = Verdict(row) }
        let places = Dictionary(uniqueKeysWithValues: schema.tables.enumerated().map { ($1.name, $0) })
        for row in results[3].map({ $0 }) {
            guard let table = places[row.text(1)], let id = row.integer(2) else { continue }
            facts.permanentIDs[row.text(0), default: [:]][TemporaryName(table: table, id: id)] = row.integer(3)
        }
        for row in results[4].map({ $0 }) { readRecent(row) }
        for row in results[5].map({ $0 }) {
            fingerprints[row.integer(0) ?? 0] = row[1].flatMap(Fingerprint.init(hex:))
        }
    }

    private mutating func readRecent(_ row: PostgresRows.Row) {
        let revision = row.integer(0) ?? 0
        let body = row.text(2)
        // A request that needs a damaged or compacted entry finds it by its own query.
        guard !body.isEmpty, let previous = row[4] else { return }
        var chain = Chain(after: previous, revision: revision)
        chain.take(body)
        guard chain.text(device: row[1]) == row.text(3) else { return }
        recent[revision] = (row[1], body)
    }

    /// Returns the revisions that a device misses, if all of them are known and none is its own.
    func catchUp(_ missed: MissedRevisions) -> CatchUp? {
        guard missed.after < missed.through else { return CatchUp(bodies: [], revision: missed.after, hasMore: false) }
        var bodies: [String] = []
        var bytes = 0
        for revision in (missed.after + 1)...missed.through {
            guard let entry = recent[revision], missed.device == nil || entry.device != missed.device else {
                return nil
            }
            bytes += entry.body.utf8.count
            guard bodies.isEmpty && missed.bringsFirst || bodies.count < missed.limit && bytes <= missed.bytesMax else {
                return CatchUp(bodies: bodies, revision: revision - 1, hasMore: true)
            }
            bodies.append(entry.body)
        }
        return CatchUp(bodies: bodies, revision: missed.through, hasMore: false)
    }
}
