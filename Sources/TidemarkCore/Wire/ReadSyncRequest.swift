/// Reads the body of `POST /sync`.
extension SyncRequest {
    /// Reads a request, with ``Envelope/init(_:ord:hash:_:)`` for its envelopes; throws the first fault with its place.
    package static func read(_ reader: inout JSONReader, names: WireNames, limits: Limits) throws(TidemarkError)
        -> (request: SyncRequest, sets: [ChangeSet])
    {
        var sets: [ChangeSet] = []
        var changes = ChangeSetReader(names, takesDeltas: true, bound: ValueBound(limits))
        let request = try read(&reader, within: limits) { (reader) throws(TidemarkError) in
            sets = try changes.changeSets(&reader, max: limits.changeSetsPerRequestMax)
            return !sets.isEmpty
        }
        return (request.request, sets)
    }

    /// Reads a request without change sets, which needs no schema; nil if it has some.
    package static func readPull(_ reader: inout JSONReader, limits: Limits) throws(TidemarkError) -> SyncRequest? {
        let (request, hasChangeSets) = try read(&reader, within: limits) { (reader) throws(TidemarkError) in
            var isEmpty = true
            try reader.array { (reader) throws(TidemarkError) in
                isEmpty = false
                try reader.skip()
            }
            return !isEmpty
        }
        return hasChangeSets ? nil : request
    }

    /// Reads a request; `readChangeSets` reads the value of `changeSets`, and returns whether there are any.
    private static func read(
        _ reader: inout JSONReader, within limits: Limits,
        readChangeSets: (inout JSONReader) throws(TidemarkError) -> Bool
    ) throws(TidemarkError) -> (request: SyncRequest, hasChangeSets: Bool) {
        guard try reader.kind() == .object else { throw JSONFault.noRequest }
        var request = SyncRequest(maxRevision: -1)
        var hasChangeSets = false
        let refusal = { malformed($0, about: $1, within: limits) }
        do throws(TidemarkError) {
            try reader.object { (reader, name) throws(TidemarkError) in
                let name = reader.text(of: name)
                guard name == "changeSets" else { return try request.read(name, from: &reader, within: limits) }
                guard try reader.kind() == .array else { throw refusal("changeSets has another form.", name) }
                hasChangeSets = try readChangeSets(&reader)
            }
            try reader.finish()
        } catch {
            guard error.code == .duplicateName, error.place == .init() else { throw error }
            throw TidemarkError(.duplicateName, "The request has a member twice.", fix: "Give each name once.")
        }
        guard request.maxRevision >= 0 else { throw refusal("maxRevision is missing.", "maxRevision") }
        guard request.question == nil || !hasChangeSets else {
            throw refusal("The request has recall or known together with change sets.", "recall")
        }
        guard !request.isSettled || !hasChangeSets && request.lap == nil && request.question == nil else {
            throw refusal("The request has settled together with change sets, a lap or a question.", "settled")
        }
        return (request, hasChangeSets)
    }

    private mutating func read(_ name: String, from reader: inout JSONReader, within limits: Limits)
        throws(TidemarkError)
    {
        let malformed: TypedMembers.Malformed = { Self.malformed($0, about: name, within: limits) }
        switch name {
        case "maxRevision": maxRevision = try reader.required(name, or: malformed) { $0.integer(of: $1, from: 0) }
        case "device": device = try reader.member(name, or: malformed) { $0.plainText(of: $1) }
        case "epoch": epoch = try reader.member(name, or: malformed) { $0.plainText(of: $1) }
        case "schema": schema = try reader.member(name, or: malformed) { $0.plainText(of: $1) }
        case "fingerprint": fingerprint = try reader.member(name, or: malformed) { $0.fingerprint(of: $1) }
        case "limit": limit = Int(try reader.required(name, or: malformed) { $0.integer(of: $1, from: 1) })
        case "overruled": overruled = try reader.required(name, or: malformed) { $0.integer(of: $1, from: 0) }
        case "delta": takesDelta = try reader.required(name, or: malformed) { $0.truth(of: $1) }
        case "echo":
            echo = try reader.required(name, or: malformed) { $0.plainText(of: $1).flatMap(Echo.init(rawValue:)) }
        case "settled": isSettled = try reader.required(name, or: malformed) { $1.kind == .true ? true : nil }
        case "lap": lap = try Self.lap(&reader, limits, or: malformed)
        case "lend":
            // The zone may not have these tables, or no longer.
            let tables = try reader.members(name, or: malformed) { (reader, path) throws(TidemarkError) in
                try reader.required(path, or: malformed) { $0.plainText(of: $1) }
            }
            lend = Set(tables).sorted()
        case "recall", "known":
            let ids = try reader.ids(name, max: limits.recalledIDsMax, or: malformed)
            if question == nil { question = Question() }
            if name == "recall" { question?.recall = ids } else { question?.known = ids }
        default: throw malformed("The request has a member \(name).")
        }
    }

    private static func lap(_ reader: inout JSONReader, _ limits: Limits, or malformed: TypedMembers.Malformed)
        throws(TidemarkError) -> Lap
    {
        var last: String??
        var open: [String]?
        var next: String?
        try TypedMembers.read(at: "lap", &reader, or: malformed) { (reader, name, path) throws(TidemarkError) in
            switch name {
            case "last": last = .some(try reader.member(path, or: malformed) { $0.id(in: $1) })
            case "open": open = try reader.ids(path, max: limits.openLapsMax, or: malformed)
            case "next": next = try reader.required(path, or: malformed) { $0.id(in: $1) }
            default: throw malformed("The request has a member \(path).")
            }
        }
        guard let last, let open, let next else { throw malformed("lap lacks a member.") }
        return Lap(last: last, open: open, next: next)
    }

    /// What the members of a request are; all but `maxRevision` may be left out.
    private static func meanings(within limits: Limits) -> [String: String] {
        [
            "maxRevision": "the latest revision that you have, 0 at first", "limit": "the most revisions that you want",
            "changeSets": "an array of change sets, possibly empty", "fingerprint": "32 hexadecimal digits",
            "overruled": "the last note that you took in", "delta": "true or false", "echo": #""all" or "ids""#,
            "settled": "true, for requests that only ask for news", "lend": "an array of the names of tables",
            "lap": #"{"last": UUID or null, "open": [at most \#(limits.openLapsMax) UUIDs], "next": UUID}"#,
            "recall": "an array of at most \(limits.recalledIDsMax) UUIDs; ask first, and send change sets afterwards",
            "known": "an array of at most \(limits.recalledIDsMax) UUIDs", "device": "a string without NUL",
            "epoch": "a string without NUL", "schema": "a string without NUL",
        ]
    }

    private static func malformed(_ message: String, about member: String, within limits: Limits) -> TidemarkError {
        let meaning = meanings(within: limits)[member].map { "\(member) is \($0)" } ?? "It is not part of the protocol"
        return TidemarkError(.malformedRequest, message, fix: "\(meaning); see PROTOCOL.md.")
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

    fileprivate mutating func ids(_ path: String, max: Int, or malformed: TypedMembers.Malformed)
        throws(TidemarkError) -> [String]
    {
        try members(path, max: max, or: malformed) { (reader, path) throws(TidemarkError) in
            try reader.required(path, or: malformed) { $0.id(in: $1) }
        }
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

/// Objects whose members have fixed names and types, with errors that name a member by its path, such as
/// `ranges[3].from`.
package enum TypedMembers {
    /// The error about a member, in words.
    package typealias Malformed = (String) -> TidemarkError

    /// Reads an object at a path; `member` reads each value, and gets the member's name and path.
    package static func read(
        at path: String, _ reader: inout JSONReader, or malformed: Malformed,
        member: (inout JSONReader, _ name: String, _ path: String) throws(TidemarkError) -> Void
    ) throws(TidemarkError) {
        guard try reader.kind() == .object else {
            throw malformed(path.isEmpty ? "The body is not an object." : "\(path) has another form.")
        }
        try reader.object { (reader, name) throws(TidemarkError) in
            let name = reader.text(of: name)
            try member(&reader, name, path.isEmpty ? name : "\(path).\(name)")
        }
    }
}

extension JSONReader {
    /// Reads the value of a member, nil if it is null; `read` returns nil for a value of another type.
    package mutating func member<Value>(
        _ path: String, or malformed: TypedMembers.Malformed, _ read: (JSONReader, Cell) -> Value?
    ) throws(TidemarkError) -> Value? {
        let cell = try cell()
        if cell.kind == .null { return nil }
        guard let value = read(self, cell) else { throw malformed("\(path) has another form.") }
        return value
    }

    /// Reads the value of a member that cannot be null; `read` returns nil for a value of another type.
    package mutating func required<Value>(
        _ path: String, or malformed: TypedMembers.Malformed, _ read: (JSONReader, Cell) -> Value?
    ) throws(TidemarkError) -> Value {
        guard let value = try member(path, or: malformed, read) else { throw malformed("\(path) is null.") }
        return value
    }

    /// Reads an array of at most `max` values; `element` reads each, and gets its path.
    package mutating func members<Value>(
        _ path: String, max: Int = .max, or malformed: TypedMembers.Malformed,
        element: (inout JSONReader, _ path: String) throws(TidemarkError) -> Value
    ) throws(TidemarkError) -> [Value] {
        guard try kind() == .array else { throw malformed("\(path) has another form.") }
        var values: [Value] = []
        try array { (reader) throws(TidemarkError) in
            guard values.count < max else { throw malformed("\(path) has more than \(max) values.") }
            values.append(try element(&reader, "\(path)[\(values.count)]"))
        }
        return values
    }

    /// Returns `true` or `false`; nil for another value.
    package func truth(of cell: Cell) -> Bool? { cell.kind == .true ? true : cell.kind == .false ? false : nil }
    /// Returns an integer of 64 bits, not below `lowest`; nil for another value.
    package func integer(of cell: Cell, from lowest: Int64 = .min) -> Int64? {
        guard cell.kind == .integer, let integer = integer(in: cell.range), integer >= lowest else { return nil }
        return integer
    }
    /// Returns a fingerprint in hexadecimal digits; nil for another value.
    package func fingerprint(of cell: Cell) -> Fingerprint? { plainText(of: cell).flatMap(Fingerprint.init(hex:)) }
}
