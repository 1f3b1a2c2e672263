/// Reads the body of `POST /sync`.
extension SyncRequest {
    /// Reads a request, with ``Envelope/init(_:ord:hash:_:)`` for its envelopes; throws the first fault with its place.
    package static func read(_ reader: inout JSONReader, names: WireNames, limits: Limits) throws(TidemarkError)
        -> (request: SyncRequest, sets: [ChangeSet])
    {
        var sets: [ChangeSet] = []
        var changes = ChangeSetReader(names, takesDeltas: true, bound: ValueBound(limits))
        let members = try RequestMembers(&reader, limits) { (reader) throws(TidemarkError) in
            sets = try changes.changeSets(&reader, max: limits.changeSetsPerRequestMax)
        }
        return (try SyncRequest(members, hasChangeSets: !sets.isEmpty), sets)
    }

    /// Reads a request without change sets, which needs no schema; nil if it has some.
    package static func readPull(_ reader: inout JSONReader, limits: Limits) throws(TidemarkError) -> SyncRequest? {
        var hasChangeSets = false
        let members = try RequestMembers(&reader, limits) { (reader) throws(TidemarkError) in
            try reader.array { (reader) throws(TidemarkError) in
                hasChangeSets = true
                try reader.skip()
            }
        }
        return hasChangeSets ? nil : try SyncRequest(members, hasChangeSets: false)
    }

    private init(_ members: RequestMembers, hasChangeSets: Bool) throws(TidemarkError) {
        guard let revision = members.maxRevision else {
            throw RequestMembers.error("maxRevision is missing.", RequestMembers.latest)
        }
        guard members.hasQuestion == false || !hasChangeSets else {
            throw RequestMembers.error(
                "The request has recall or known together with change sets.",
                "one or the other: ask first, send afterwards")
        }
        guard !members.isSettled || !hasChangeSets && members.lap == nil && !members.hasQuestion else {
            throw RequestMembers.error(
                "The request has settled together with change sets, a lap or a question.",
                "for requests that only ask for news")
        }
        self.init(
            maxRevision: revision, device: members.device, epoch: members.epoch, schema: members.schema,
            limit: members.limit, overruled: members.overruled ?? 0, fingerprint: members.fingerprint,
            isSettled: members.isSettled, takesDelta: members.takesDelta, echo: members.echo, lap: members.lap,
            lend: members.lend,
            question: members.hasQuestion ? Question(recall: members.recall, known: members.known) : nil, changeSets: []
        )
    }
}

extension SyncRequest.Envelope {
    /// Reads the members of a change set that are not tables; `hash` is SHA-256 of its text.
    package init(_ set: ChangeSet, hash: String, names: WireNames, _ reader: JSONReader)
        throws(TidemarkError)
    {
        let known = set.members["id"].flatMap { reader.id(in: $0) }
        do throws(TidemarkError) {
            let time = try Self.time(set.members["time"], reader)
            let id = try set.members["id"].map { (cell) throws(TidemarkError) in try Self.id(cell, reader) }
            try Self.refuseForeignRecords(set.records, names)
            self.init(
                index: set.index, id: id, after: try Self.predecessors(set.members["after"], reader), hash: hash,
                time: time)
        } catch { throw error.within(.init(changeSet: set.index, id: known)) }
    }

    private static func time(_ cell: Cell?, _ reader: JSONReader) throws(TidemarkError) -> Int64? {
        guard let cell else { return nil }
        guard cell.kind == .integer, let time = reader.integer(in: cell.range), 0...HybridClock.timeMax ~= time else {
            throw TidemarkError(
                .malformedRequest, "time is not a valid time.",
                fix: "It is milliseconds since 1970 times 1,000 plus a counter; leave it out if you have none.")
        }
        return time
    }

    private static func predecessors(_ cell: Cell?, _ reader: JSONReader) throws(TidemarkError) -> [String] {
        guard let cell else { return [] }
        guard cell.kind == .array else { return [try id(cell, reader)] }
        var ids: [String] = []
        var rest = reader.reader(at: cell.range.lowerBound)
        try rest.array { (rest) throws(TidemarkError) in ids.append(try id(try rest.cell(), rest)) }
        return ids
    }

    private static func id(_ cell: Cell, _ reader: JSONReader) throws(TidemarkError) -> String {
        guard let id = reader.id(in: cell) else {
            throw TidemarkError(
                .malformedRequest, "id or after is not a UUID.",
                fix: "An id is 128 random bits written as a UUID; after names one, or is an array of some.")
        }
        return id
    }

    /// Refuses new records in the region of temporary ids, and `__oldId__`, which is the server's to write.
    static func refuseForeignRecords(_ records: [ChangeSet.Record], _ names: WireNames) throws(TidemarkError) {
        for record in records {
            let table = names.tables[record.table]
            if record.operation == .create, table.keyKind == .integer,
                Int64(record.key) ?? 0 > TemporaryID.permanentMax
            {
                throw TidemarkError(
                    .invalidKey,
                    "A new record's id is above 2^52 - 1.",
                    fix: """
                        Create it under an id of its own below that, or as -1, -2 and so on; then the server gives the \
                        id.
                        """,
                    place: .init(table: table.name, key: record.key))
            }
            guard record.authorsKey == nil else {
                throw TidemarkError(
                    .unknownColumn, "__oldId__ is the server's to write.",
                    fix: "List the temporary id in create; the answer tells the permanent one.",
                    place: .init(table: table.name, key: record.key, column: "__oldId__"))
            }
        }
    }
}

extension JSONReader {
    /// Returns the UUID in a cell, in lower case; nil for another value.
    fileprivate func id(in cell: Cell) -> String? {
        guard let id = plainText(of: cell)?.lowercased() else { return nil }
        return ChangeSetID.isValid(id) ? id : nil
    }
}

/// The members of a request in the order of the text, before they are compared with each other.
private struct RequestMembers {
    static let latest = "the latest revision that you have, 0 at first"
    private(set) var maxRevision: Int64?
    private(set) var device: String?
    private(set) var epoch: String?
    private(set) var schema: String?
    private(set) var limit: Int?
    private(set) var overruled: Int64?
    private(set) var fingerprint: Fingerprint?
    private(set) var takesDelta = false
    private(set) var isSettled = false
    private(set) var lap: SyncRequest.Lap?
    private(set) var lend: [String] = []
    private(set) var recall: [String] = []
    private(set) var known: [String] = []
    private(set) var hasQuestion = false
    private(set) var echo = SyncRequest.Echo.all

    /// Reads a request; `readChangeSets` reads the value of `changeSets`.
    init(_ reader: inout JSONReader, _ limits: Limits, readChangeSets: (inout JSONReader) throws(TidemarkError) -> Void)
        throws(TidemarkError)
    {
        guard try reader.kind() == .object else { throw JSONFault.noRequest }
        do throws(TidemarkError) {
            try reader.object { (reader, name) throws(TidemarkError) in
                let name = reader.text(of: name)
                guard name == "changeSets" else { return try read(name, &reader, within: limits) }
                guard try reader.kind() == .array else {
                    throw Self.error("changeSets is not an array.", "an array of change sets, possibly empty")
                }
                try readChangeSets(&reader)
            }
            try reader.finish()
        } catch {
            guard error.code == .duplicateName, error.place == .init() else { throw error }
            throw TidemarkError(.duplicateName, "The request has a member twice.", fix: "Give each name once.")
        }
    }

    private mutating func read(_ name: String, _ reader: inout JSONReader, within limits: Limits) throws(TidemarkError)
    {
        switch name {
        case "maxRevision": maxRevision = try Self.number(name, from: 0, &reader, meaning: Self.latest)
        case "device": device = try Self.text(name, &reader)
        case "epoch": epoch = try Self.text(name, &reader)
        case "schema": schema = try Self.text(name, &reader)
        case "fingerprint": fingerprint = try Self.fingerprint(&reader)
        case "limit": limit = Int(try Self.number(name, from: 1, &reader, meaning: "the most revisions that you want"))
        case "overruled": overruled = try Self.number(name, from: 0, &reader, meaning: "the last note that you took in")
        case "delta": takesDelta = try Self.truth(name, &reader)
        case "echo": echo = try Self.choice(name, &reader, among: ["all", "ids"]) == "ids" ? .ids : .all
        case "settled":
            guard try reader.cell().kind == .true else { throw Self.error("settled is not true.", "true, or left out") }
            isSettled = true
        case "lap": lap = try Self.lap(&reader, limits)
        case "lend": lend = try Self.tables(&reader)
        case "recall", "known":
            let ids = try Self.ids(name, &reader, within: limits)
            if name == "recall" { recall = ids } else { known = ids }
            hasQuestion = true
        case "wait": throw TidemarkError.noLongPolling(.malformedRequest)
        default: throw Self.error("The request has a member \(name).", "not part of the protocol")
        }
    }

    static func error(_ message: String, _ fix: String) -> TidemarkError {
        TidemarkError(.malformedRequest, message, fix: "It is \(fix); see PROTOCOL.md.")
    }

    // MARK: Values

    /// Reads a text, nil if it is null; refuses NUL, because SQLite functions ignore the rest after it.
    private static func text(_ name: String, _ reader: inout JSONReader) throws(TidemarkError) -> String? {
        let cell = try reader.cell()
        if cell.kind == .null { return nil }
        if let text = reader.plainText(of: cell) { return text }
        throw Self.error("\(name) is not a string without NUL.", "a string, and may be left out")
    }

    private static func number(_ name: String, from lowest: Int64, _ reader: inout JSONReader, meaning: String)
        throws(TidemarkError) -> Int64
    {
        let cell = try reader.cell()
        guard cell.kind == .integer, let number = reader.integer(in: cell.range), number >= lowest else {
            throw error("\(name) is no integer from \(lowest) on.", meaning)
        }
        return number
    }

    private static func truth(_ name: String, _ reader: inout JSONReader) throws(TidemarkError) -> Bool {
        let kind = try reader.cell().kind
        guard [.true, .false].contains(kind) else {
            throw error("\(name) is not true or false.", "true or false, or left out")
        }
        return kind == .true
    }

    private static func choice(_ name: String, _ reader: inout JSONReader, among choices: [String])
        throws(TidemarkError)
        -> String
    {
        let cell = try reader.cell()
        guard let text = reader.plainText(of: cell), choices.contains(text) else {
            let names = choices.map { "\"\($0)\"" }.joined(separator: " nor ")
            throw error("\(name) is neither \(names).", "one of these, or left out")
        }
        return text
    }

    private static func fingerprint(_ reader: inout JSONReader) throws(TidemarkError) -> Fingerprint? {
        guard let hex = try text("fingerprint", &reader) else { return nil }
        guard let fingerprint = Fingerprint(hex: hex) else {
            throw error("fingerprint is not a fingerprint.", "32 hexadecimal digits, and may be left out")
        }
        return fingerprint
    }

    // MARK: Lists

    /// Reads the elements of an array; nil for another value, or more than `max` elements.
    private static func cells(_ reader: inout JSONReader, max: Int) throws(TidemarkError) -> [Cell]? {
        guard try reader.kind() == .array else {
            try reader.skip()
            return nil
        }
        var cells: [Cell] = []
        try reader.array { (reader) throws(TidemarkError) in
            let cell = try reader.cell()
            if cells.count <= max { cells.append(cell) }
        }
        return cells.count <= max ? cells : nil
    }

    /// Reads names of tables, which the zone may not have, or no longer.
    private static func tables(_ reader: inout JSONReader) throws(TidemarkError) -> [String] {
        let cells = try cells(&reader, max: .max - 1)
        let source = reader
        let names = cells?.compactMap { source.plainText(of: $0) }
        guard let names, names.count == cells?.count else {
            throw error("lend is not an array of strings.", "the names of tables")
        }
        return Set(names).sorted()
    }

    private static func ids(_ name: String, _ reader: inout JSONReader, within limits: Limits) throws(TidemarkError)
        -> [String]
    {
        let cells = try cells(&reader, max: limits.recalledIDsMax)
        let source = reader
        let ids = cells?.compactMap { source.id(in: $0) }
        guard let ids, ids.count == cells?.count else {
            throw error("\(name) is no list of change set ids.", "an array of at most \(limits.recalledIDsMax) UUIDs")
        }
        return ids
    }

    private static func lap(_ reader: inout JSONReader, _ limits: Limits) throws(TidemarkError) -> SyncRequest.Lap {
        var members: [String: Cell] = [:]
        var open: [Cell]?
        if try reader.kind() == .object {
            try reader.object { (reader, name) throws(TidemarkError) in
                let name = reader.text(of: name)
                if name == "open" {
                    open = try cells(&reader, max: limits.openLapsMax)
                } else {
                    members[name] = try reader.cell()
                }
            }
        } else {
            try reader.skip()
        }
        let source = reader
        let openIDs = open?.compactMap { source.id(in: $0) }
        guard Set(members.keys) == ["last", "next"], let openIDs, openIDs.count == open?.count,
            let next = members["next"].flatMap({ source.id(in: $0) }), let last = members["last"],
            last.kind == .null || source.id(in: last) != nil
        else {
            throw error(
                "lap has another form.",
                #"{"last": UUID or null, "open": [at most \#(limits.openLapsMax) UUIDs], "next": UUID}"#)
        }
        return SyncRequest.Lap(last: source.id(in: last), open: openIDs, next: next)
    }
}

/// Reads the keys of a table's records in their canonical form.
///
/// An integer key is a number, the key of one TEXT column a string, and any other one canonical JSON: a value, or an
/// array of the key's values. The attributes of a record have the key as a name: a number or a string as its
/// characters, any other key as its JSON.
struct RecordKeyReader {
    private let table: WireNames.Table

    init(_ table: WireNames.Table) { self.table = table }

    /// Reads a key in a list, at most as long as the largest value; throws ``TidemarkCore/ErrorCode/invalidKey``.
    func key(_ reader: inout JSONReader, _ bound: ValueBound?) throws(TidemarkError) -> String {
        let cell = try reader.cell()
        try bound?.checkKey(cell)
        switch table.keyKind {
        case .integer:
            guard cell.kind == .integer, let id = reader.integer(in: cell.range) else { throw unfit(cell, reader) }
            return String(id)
        case .text:
            guard [.text, .escapedText, .object].contains(cell.kind) else { throw unfit(cell, reader) }
        case .general:
            guard cell.kind != .null, (cell.kind == .array) == (table.keyParts > 1) else { throw unfit(cell, reader) }
        }
        return try canonicalKey(cell, reader)
    }

    /// Returns the canonical key of a name in `attributes`; throws ``TidemarkCore/ErrorCode/invalidKey``.
    func key(named name: JSONReader.Text, in reader: JSONReader) throws(TidemarkError) -> String {
        switch table.keyKind {
        case .integer: return reader.text(of: name)
        case .text where !reader.text(of: name).hasPrefix(#"{"$"#):
            return try canonicalKey(Cell(name.hasEscapes ? .escapedText : .text, name.range), reader)
        case .text, .general:
            let json = Array(reader.text(of: name).utf8)
            do throws(TidemarkError) {
                return try json.withUnsafeBufferPointer { (bytes) throws(TidemarkError) -> String in
                    var reader = try JSONReader(bytes)
                    let cell = try reader.cell()
                    try reader.finish()
                    return try canonicalKey(cell, reader)
                }
            } catch { throw invalid("is no JSON value", key: reader.text(of: name)) }
        }
    }

    /// Returns the canonical JSON of a key's value, or of an array of them.
    private func canonicalKey(_ cell: Cell, _ reader: JSONReader) throws(TidemarkError) -> String {
        guard cell.kind == .array else {
            let isString = [.text, .escapedText].contains(cell.kind)
            if cell.kind == .text { return quoted(cell.range, reader) }
            do throws(InvalidValue) {
                let value = try reader.value(of: cell)
                if isString, case .rawText = value { throw InvalidValue(reason: "has NUL") }
                return String(decoding: value.canonicalJSON, as: UTF8.self)
            } catch {
                guard isString else { throw invalid(error.reason, key: nil) }
                throw TidemarkError(
                    .invalidKey, "A key contains NUL, or an escape that is not a character.",
                    fix: "Give the record a key of other characters.")
            }
        }
        var parts: [String] = []
        var rest = reader.reader(at: cell.range.lowerBound)
        try rest.array { (rest) throws(TidemarkError) in
            let part = try rest.cell()
            guard part.kind != .null else { throw unfit(cell, reader) }
            do throws(InvalidValue) {
                parts.append(String(decoding: try rest.value(of: part).canonicalJSON, as: UTF8.self))
            } catch { throw invalid(error.reason, key: nil) }
        }
        guard parts.count == table.keyParts else { throw unfit(cell, reader) }
        return "[\(parts.joined(separator: ","))]"
    }

    /// A string without escapes is its own canonical form.
    private func quoted(_ range: Range<Int>, _ reader: JSONReader) -> String {
        String(decoding: reader.bytes[range.lowerBound - 1..<range.upperBound + 1], as: UTF8.self)
    }

    private func unfit(_ cell: Cell, _ reader: JSONReader) -> TidemarkError {
        TidemarkError(
            .invalidKey,
            "A key has the wrong form for its table.",
            fix: """
                Keys of INTEGER PRIMARY KEY tables are integers, of one TEXT column strings, of several columns \
                arrays of their values in key order.
                """,
            place: .init(key: String(decoding: JSONParts.compact(reader.bytes[cell.range]), as: UTF8.self)))
    }

    private func invalid(_ reason: String, key: String?) -> TidemarkError {
        TidemarkError(
            .invalidKey, "A value \(reason).", fix: "PROTOCOL.md lists the JSON form of every SQLite value.",
            place: .init(key: key))
    }
}
