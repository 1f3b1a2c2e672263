import GRDB
import TidemarkCore
import TidemarkSQL

/// The validated envelope of an answer.
struct AnswerEnvelope {
    let maxRevision: Int64
    let hasMore: Bool
    /// Notes about this device's values that other change sets overruled, a JSON array.
    let overruled: String
    /// The hash of the zone's schema.
    let schema: String?
    /// The fingerprint of the zone at `maxRevision`.
    let fingerprint: Fingerprint?
    /// The ids that the server lends this device, a JSON object of tables.
    let lent: String
    /// Whether the answer has only the new ids of the device's own change sets.
    let echoesIds: Bool
    private let body: [UInt8]
    /// The offset of the change sets in the body.
    private let changeSets: Int

    /// Throws if the body is no answer, or has another epoch.
    init(_ body: [UInt8], file: DeviceFile, limits: Limits) throws(TidemarkError) {
        let members: AnswerMembers
        do throws(TidemarkError) {
            members = try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
                try AnswerMembers(JSONReader(bytes, depthMax: limits.jsonDepthMax))
            }
        } catch { throw AnswerCheck.inapplicable(error.message, place: error.place) }
        guard members.isAnswer, let revision = members.maxRevision, let sets = members.changeSets else {
            throw TidemarkError(
                .invalidResponse, "The answer is not Tidemark's.",
                fix: "Nothing was changed. Check the URL; a network's sign-in page may be in the way.")
        }
        guard members.epoch == file.epoch, revision >= file.revision else {
            throw TidemarkError(
                .epochMismatch, "The server's history differs from this file's.",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
        guard !members.hasMore || revision > file.revision else {
            throw TidemarkError(
                .invalidResponse, "The answer has no change sets, but says that more follow.",
                fix: "Nothing was changed. Compare the versions of both sides.")
        }
        self.body = body
        maxRevision = revision
        changeSets = sets
        hasMore = members.hasMore
        overruled = members.overruled
        schema = members.schema
        echoesIds = members.echoesIds
        lent = members.lent
        fingerprint = members.fingerprint
    }

    func stage(_ schema: SyncSchema, in db: Database) throws {
        do {
            try ChangeSetStaging.stage(body, at: changeSets, schema, unknownNames: .ignoreDropped, in: db)
        } catch let error as TidemarkError { throw AnswerCheck.inapplicable(error.message, place: error.place) }
    }
}

/// The members of an answer; it may be no answer at all, but another server's page.
private struct AnswerMembers {
    private(set) var isAnswer = true
    private(set) var maxRevision: Int64?
    private(set) var epoch: String?
    private(set) var schema: String?
    private(set) var hasMore = false
    private(set) var echoesIds = false
    private(set) var overruled = "[]"
    private(set) var lent = "{}"
    private(set) var fingerprint: Fingerprint?
    private(set) var changeSets: Int?

    init(_ whole: JSONReader) throws(TidemarkError) {
        var reader = whole
        guard try reader.kind() == .object else {
            isAnswer = false
            return
        }
        try reader.object { (reader, name) throws(TidemarkError) in
            let name = reader.text(of: name)
            let kind = try reader.kind()
            if name == "changeSets", kind == .array { changeSets = reader.place }
            take(name, try reader.cell(), in: reader)
        }
        try reader.finish()
    }

    private mutating func take(_ name: String, _ cell: Cell, in reader: JSONReader) {
        let json = { String(decoding: JSONParts.compact(reader.bytes[cell.range]), as: UTF8.self) }
        switch (name, cell.kind) {
        case ("maxRevision", .integer): maxRevision = reader.integer(in: cell.range)
        case ("epoch", _): epoch = reader.plainText(of: cell)
        case ("schema", _): schema = reader.plainText(of: cell)
        case ("fingerprint", _): fingerprint = reader.plainText(of: cell).flatMap(Fingerprint.init(hex:))
        case ("more", .true): hasMore = true
        case ("overruled", .array): overruled = json()
        case ("lent", .object): lent = json()
        case ("echo", .text) where reader.plainText(of: cell) == "ids": echoesIds = true
        case ("echo", .text) where reader.plainText(of: cell) == "all": break
        case ("more", .false), ("changeSets", .array): break
        case ("more", _), ("overruled", _), ("lent", _), ("echo", _): isAnswer = false
        default: break
        }
    }
}

/// The staged change sets of an answer, sorted by author and verdict.
struct AnsweredSets {
    /// The device's own change sets that became revisions.
    let accepted: [(ord: Int, id: String, revision: Int64)]
    let refused: [(ord: Int, id: String)]
    /// The change sets to apply, in revision order: all after the device's revision.
    let stream: [Int]
    /// The change sets of `stream` by other authors.
    let foreign: [Int]
    var isEmpty: Bool { stream.isEmpty && accepted.isEmpty && refused.isEmpty }

    /// Sorts the staged change sets after ``AnswerCheck`` validated them; throws if a revision is missing.
    init(after requested: Int64, through last: Int64, in db: Database) throws {
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT answered.ord, answered.revision, answered.id, answered.conflict,
                    changeset.seq IS NOT NULL AS own
                FROM temp.tidemark_answered AS answered
                LEFT JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                ORDER BY answered.ord
                """)
        var accepted: [(ord: Int, id: String, revision: Int64)] = []
        var refused: [(ord: Int, id: String)] = []
        var stream: [Int] = []
        var foreign: [Int] = []
        var next = requested + 1
        for row in rows {
            let isOwn: Bool = try row.value("own")
            if try row.value("conflict") as Bool {
                if isOwn { try refused.append((row.value("ord"), row.value("id"))) }
                continue
            }
            let revision = try row.value("revision") as Int64? ?? 0
            if isOwn { try accepted.append((row.value("ord"), row.value("id"), revision)) }
            guard revision > requested else { continue }
            if planted(PlantedBug.takesGaps) { next = revision }
            guard revision == next else {
                throw AnswerCheck.inapplicable("it has revision \(revision) where \(next) is due.")
            }
            next += 1
            try stream.append(row.value("ord"))
            if !isOwn { try foreign.append(row.value("ord")) }
        }
        guard next - 1 == last else { throw AnswerCheck.inapplicable("it ends before revision \(last).") }
        self.accepted = accepted
        self.refused = refused
        self.stream = stream
        self.foreign = foreign
    }
}
