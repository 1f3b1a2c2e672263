import GRDB
import TidemarkCore
import TidemarkSQL

/// A server's answer: its members, and where its change sets are in the text.
///
/// It may come from a broken or hostile server, or from a proxy. The device refuses an invalid answer whole, and file
/// and outbox stay as they were.
struct Answer {
    private(set) var maxRevision: Int64 = 0
    private var hasRevision = false
    private(set) var hasMore = false
    /// Notes about this device's values that other change sets overruled, a JSON array.
    private(set) var overruled = "[]"
    /// The hash of the zone's schema.
    private(set) var schema: String?
    /// The fingerprint of the zone at `maxRevision`.
    private(set) var fingerprint: Fingerprint?
    /// The ids that the server lends this device, a JSON object of tables.
    private(set) var lent = "{}"
    /// Whether the answer has only the new ids of the device's own change sets.
    private(set) var echoesIds = false
    private var epoch: String?
    private let reader: JSONReader
    private var changeSets: Int?
    /// Whether the members have the form of an answer's; it may be another server's page.
    private var isWellFormed = true

    /// Reads the members, and throws if it is no answer, or has another epoch; `body` has to stay in memory.
    init(_ body: UnsafeBufferPointer<UInt8>, file: DeviceFile, limits: Limits) throws(TidemarkError) {
        do throws(TidemarkError) {
            reader = try JSONReader(body, depthMax: limits.jsonDepthMax)
            var reader = reader
            guard try reader.kind() == .object else { throw Self.foreign }
            try reader.object { (reader, name) throws(TidemarkError) in
                let name = reader.text(of: name)
                let kind = try reader.kind()
                if name == "changeSets", kind == .array { changeSets = reader.place }
                take(name, try reader.cell(), in: reader)
            }
            try reader.finish()
        } catch { throw error.code == .invalidResponse ? error : Self.inapplicable(error.message, place: error.place) }
        guard isWellFormed, hasRevision, changeSets != nil else { throw Self.foreign }
        guard epoch == file.epoch, maxRevision >= file.revision else {
            throw TidemarkError(
                .epochMismatch, "The server's history differs from this file's.",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
        guard !hasMore || maxRevision > file.revision else {
            throw TidemarkError(
                .invalidResponse, "The answer has no change sets, but says that more follow.",
                fix: "Nothing was changed. Compare the versions of both sides.")
        }
    }

    private mutating func take(_ name: String, _ cell: Cell, in reader: JSONReader) {
        switch (name, cell.kind) {
        case ("maxRevision", .integer):
            if let revision = reader.integer(in: cell.range) {
                maxRevision = revision
                hasRevision = true
            }
        case ("epoch", _): epoch = reader.plainText(of: cell)
        case ("schema", _): schema = reader.plainText(of: cell)
        case ("fingerprint", _): fingerprint = reader.plainText(of: cell).flatMap(Fingerprint.init(hex:))
        case ("more", .true): hasMore = true
        case ("overruled", .array): overruled = reader.compactText(of: cell)
        case ("lent", .object): lent = reader.compactText(of: cell)
        case ("echo", .text) where reader.plainText(of: cell) == "ids": echoesIds = true
        case ("echo", .text) where reader.plainText(of: cell) == "all": break
        case ("more", .false), ("changeSets", .array): break
        case ("more", _), ("overruled", _), ("lent", _), ("echo", _): isWellFormed = false
        default: break
        }
    }

    /// Reads the change sets with the names of a schema.
    func sets(_ schema: SyncSchema) throws -> [AnsweredSet] {
        try AnsweredSet.read(reader.reader(at: changeSets ?? 0), schema)
    }

    // MARK: Errors

    static let foreign = TidemarkError(
        .invalidResponse, "The answer is not Tidemark's.",
        fix: "Nothing was changed. Check the URL; a network's sign-in page may be in the way.")

    static func inapplicable(_ reason: String, place: TidemarkError.Place = .init()) -> TidemarkError {
        TidemarkError(
            .invalidResponse, "\(inapplicablePrefix): \(reason)",
            fix: "Nothing was changed, and the outbox is kept. Compare versions and tables.", place: place)
    }

    private static let inapplicablePrefix = "The server's answer cannot be applied"

    static func isInapplicable(_ error: TidemarkError) -> Bool {
        error.code == .invalidResponse && error.message.hasPrefix(inapplicablePrefix)
    }

    /// Whether an SQLite error is about the data to write, not about the disk or the file.
    static func isDataError(_ error: DatabaseError) -> Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_ERROR, .SQLITE_TOOBIG].contains(error.resultCode)
    }
}

/// A change set of an answer, with its members that are not tables.
struct AnsweredSet {
    let changeSet: ChangeSet
    let reader: JSONReader
    let id: String?
    let isConflict: Bool
    /// The revision; 0 if a refused change set has none.
    let revision: Int64
    /// The reasons of a refusal, a JSON array.
    let reasons: String
    /// The records that the reasons name.
    let blamed: [(table: String, key: String)]
    /// The author's values that did not prevail, a JSON array; nil for none.
    let overruled: String?
    let time: Int64?

    /// Reads an array of change sets; throws `invalidResponse` if it, or one of them, has another form.
    static func read(_ whole: JSONReader, _ schema: SyncSchema) throws -> [AnsweredSet] {
        var reader = whole
        var changes = ChangeSetReader(schema.wireNames, unknownNames: .ignoreDropped)
        let sets: [ChangeSet]
        do throws(TidemarkError) { sets = try changes.changeSets(&reader) } catch {
            throw Answer.inapplicable(error.message, place: error.place)
        }
        return try sets.map { try AnsweredSet($0, reader) }
    }

    private init(_ changeSet: ChangeSet, _ reader: JSONReader) throws {
        self.changeSet = changeSet
        self.reader = reader
        let member = { (name: String) in changeSet.members[name] }
        id = member("id").flatMap(reader.plainText)
        isConflict = member("conflict")?.kind == .true
        let revision = member("revision").flatMap { $0.kind == .integer ? reader.integer(in: $0.range) : nil }
        self.revision = revision ?? 0
        time = member("time").flatMap { $0.kind == .integer ? reader.integer(in: $0.range) : nil }
        overruled = member("overruled").flatMap { $0.kind == .array ? reader.compactText(of: $0) : nil }
        let place = TidemarkError.Place(changeSet: changeSet.index)
        let isWrong =
            member("id") != nil && id == nil || member("revision") != nil && revision == nil
            || ![nil, .true, .false].contains(member("conflict")?.kind)
            || ![nil, .array].contains(member("reasons")?.kind)
        guard !isWrong, isConflict ? id != nil : revision != nil else {
            throw Answer.inapplicable(
                "A change set has a member with a type that the protocol does not allow.", place: place)
        }
        reasons = member("reasons").map(reader.compactText) ?? "[]"
        guard let blamed = Conflict.Reason.list(reasons) else {
            throw Answer.inapplicable(
                "A conflict has a reason with a form that the protocol does not allow.", place: place)
        }
        self.blamed = blamed.compactMap { reason in reason.key.map { (reason.table, $0) } }
    }

    /// Returns the key under which the device sent a record, as JSON; nil if the answer does not tell.
    func sentKey(of record: ChangeSet.Record) throws(TidemarkError) -> String? {
        guard let range = record.attributes else { return nil }
        var reader = reader.reader(at: range.lowerBound)
        var key: String?
        try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
            let isOldKey = reader.equals(name, "__oldId__")
            let cell = try reader.cell()
            if isOldKey, cell.kind != .null { key = reader.jsonText(of: cell) }
        }
        return key
    }
}

extension JSONReader {
    /// Returns the JSON of an object or array without white space between the values.
    fileprivate func compactText(of cell: Cell) -> String {
        String(decoding: JSONParts.compact(bytes[cell.range]), as: UTF8.self)
    }

    /// Returns the JSON of any value without white space between the values.
    func jsonText(of cell: Cell) -> String {
        // The position of a string is without its quotes.
        let isText = [.text, .escapedText].contains(cell.kind)
        return isText
            ? String(decoding: bytes[cell.range.lowerBound - 1..<cell.range.upperBound + 1], as: UTF8.self)
            : compactText(of: cell)
    }
}
