import Crypto

/// A change set in the protocol's JSON, made from its records.
///
/// The records of a table are ordered by the length of their keys, then by the keys' bytes. The author of a change set
/// gets the same text with the keys under which it knows its records.
///
/// A long text is not held as a whole. Most new records are committed as they were sent: their members stay in the text
/// of the request, and the others are in a buffer of their table. ``render(_:forAuthor:_:)`` joins both.
package struct ChangeSetText {
    private struct Record {
        let key: String
        /// The key under which the author knows it.
        let authorsKey: String?
        /// The place of its members.
        let start: Int
        let count: UInt32
        let operation: Operation
        let source: Source

        var members: Range<Int> { start..<start + Int(count) }
    }

    /// Where the members of a record are.
    private enum Source: UInt8 {
        case buffer
        /// The same, and only the author gets the record.
        case authorsBuffer
        /// In the text of the request, without the revision.
        case request
        /// Nowhere: the record only has a key.
        case none
    }

    private struct Table {
        var records: [Record] = []
        var members: [UInt8] = []
    }

    private let schema: SyncSchema
    private let layouts: [RowLayout]
    private var tables: [Int: Table] = [:]
    /// The text of the request, which has to stay in memory as long as this value, and the revision of its records.
    private var request: (text: JSONReader, revision: Int64)?

    package init(_ schema: SyncSchema) {
        self.schema = schema
        layouts = schema.layouts
    }

    /// The number of records that everybody gets.
    package var count: Int {
        tables.values.reduce(0) { count, table in count + table.records.count { $0.source != .authorsBuffer } }
    }

    /// Adds a record that a revision created or updated: some of its columns.
    ///
    /// `sent` has the attributes with which its author sent it. All of them are of one request and one revision.
    package mutating func add(
        _ name: RecordID, _ operation: Operation, row: [Value], columns: some Sequence<Int>, revision: Int64,
        authorsKey: String? = nil, sent: (request: JSONReader, attributes: Range<Int>)? = nil
    ) {
        let layout = layouts[name.table]
        if let sent, request == nil { request = (sent.request, revision) }
        addMembers(of: name, operation, authorsKey: authorsKey, sent: sent?.attributes) { output in
            Self.append(revision: revision, to: &output)
            for place in columns {
                output.append(UInt8(ascii: ","))
                layout.appendMember(place, of: row, to: &output)
            }
        }
    }

    /// Adds a record without attributes, such as a deleted one.
    package mutating func add(_ name: RecordID, _ operation: Operation) {
        tables[name.table, default: Table()].records.append(
            Record(key: name.key, authorsKey: nil, start: 0, count: 0, operation: operation, source: .none))
    }

    /// Adds a record of a device's outbox, with the text of its members; none for one that only has a key.
    package mutating func add(_ name: RecordID, _ operation: Operation, members: String?) {
        guard let members else { return add(name, operation) }
        addMembers(of: name, operation, authorsKey: nil) { $0 += members.utf8 }
    }

    /// Adds a record for the author alone: its former key, and its revision if there is one.
    package mutating func addForAuthor(_ name: RecordID, _ operation: Operation, key: String, revision: Int64?) {
        addMembers(of: name, operation, authorsKey: key, source: .authorsBuffer) { output in
            if let revision { Self.append(revision: revision, to: &output) }
        }
    }

    private mutating func addMembers(
        of name: RecordID, _ operation: Operation, authorsKey: String?, source: Source = .buffer,
        sent attributes: Range<Int>? = nil, append: (inout [UInt8]) -> Void
    ) {
        // The buffer is taken out, so that it is not copied.
        var table = tables.removeValue(forKey: name.table) ?? Table()
        let start = table.members.count
        append(&table.members)
        var members = start..<table.members.count
        var source = source
        if let attributes, let place = sentPlace(of: table.members[members], in: attributes) {
            table.members.removeSubrange(members)
            members = place
            source = .request
        }
        table.records.append(
            Record(
                key: name.key, authorsKey: authorsKey, start: members.lowerBound, count: UInt32(members.count),
                operation: operation, source: source))
        tables[name.table] = table
    }

    /// Returns where the request has a record's members after its revision; nil if it has not the same bytes.
    private func sentPlace(of members: ArraySlice<UInt8>, in attributes: Range<Int>) -> Range<Int>? {
        guard let request else { return nil }
        let place = attributes.dropFirst().dropLast()
        let prefix = Self.revisionMember(request.revision)
        guard !place.isEmpty, members.count == prefix.count + place.count,
            members.dropFirst(prefix.count).elementsEqual(request.text.bytes[place])
        else { return nil }
        return place
    }

    /// Returns the member that precedes the values of a record.
    private static func revisionMember(_ revision: Int64) -> [UInt8] {
        var output: [UInt8] = []
        append(revision: revision, to: &output)
        output.append(UInt8(ascii: ","))
        return output
    }

    private static func append(revision: Int64, to output: inout [UInt8]) {
        output += #""revision":"#.utf8
        JSONText.append(revision, to: &output)
    }

    // MARK: Rendering

    /// Returns the text; `envelope` has the members before `types`, each as `"name":json`.
    package func text(_ envelope: [String], forAuthor: Bool = false) -> String {
        pieces(envelope, forAuthor: forAuthor).joined()
    }

    /// Returns the text in pieces of some 64 KiB.
    package func pieces(_ envelope: [String], forAuthor: Bool = false) -> [String] {
        var pieces: [String] = []
        render(envelope, forAuthor: forAuthor) { pieces.append($0) }
        return pieces
    }

    /// Renders the text in pieces of some 64 KiB, one after another.
    package func render(_ envelope: [String], forAuthor: Bool = false, _ take: (String) throws -> Void) rethrows {
        var pieces = Pieces()
        let shown = tables.keys.sorted().compactMap { place -> (place: Int, records: [Record], members: [UInt8])? in
            guard let table = tables[place] else { return nil }
            let showsAll = forAuthor || !table.records.contains { $0.source == .authorsBuffer }
            let records = Self.ordered(
                showsAll ? table.records : table.records.filter { $0.source != .authorsBuffer })
            return records.isEmpty ? nil : (place, records, table.members)
        }
        let names = shown.map { JSONText.quote(WireName.member(table: schema.tables[$0.place].name)) }
        let types = #""types":[\#(names.joined(separator: ","))]"#
        try pieces.append("{\((envelope + [types]).joined(separator: ","))".utf8, take)
        for (name, table) in zip(names, shown) {
            try pieces.append(",\(name):{".utf8, take)
            for operation in [Operation.create, .update, .delete] {
                try pieces.append("\"\(operation.rawValue)\":[".utf8, take)
                var isFirst = true
                for record in table.records where record.operation == operation {
                    if !isFirst { try pieces.append(CollectionOfOne(UInt8(ascii: ",")), take) }
                    try pieces.append(record.key.utf8, take)
                    isFirst = false
                }
                try pieces.append("],".utf8, take)
            }
            try pieces.append(#""attributes":{"#.utf8, take)
            try attributes(of: table.records, members: table.members, in: layouts[table.place], forAuthor: forAuthor) {
                try pieces.append($0, take)
            }
            try pieces.append("}}".utf8, take)
        }
        try pieces.append("}".utf8, take)
        try pieces.flush(take)
    }

    private func attributes(
        of records: [Record], members: [UInt8], in layout: RowLayout, forAuthor: Bool, _ take: ([UInt8]) throws -> Void
    ) rethrows {
        var isFirst = true
        var output: [UInt8] = []
        let revision = request.map { Self.revisionMember($0.revision) } ?? []
        for record in records where record.source != .none {
            output.removeAll(keepingCapacity: true)
            if !isFirst { output.append(UInt8(ascii: ",")) }
            isFirst = false
            layout.appendName(of: record.key, to: &output)
            output += ":{".utf8
            if forAuthor, let key = record.authorsKey {
                output += #""__oldId__":"#.utf8
                output += key.utf8
                if record.count > 0 { output.append(UInt8(ascii: ",")) }
            }
            if record.source == .request, let request {
                output += revision
                output += request.text.bytes[record.members]
            } else {
                output += members[record.members]
            }
            output.append(UInt8(ascii: "}"))
            try take(output)
        }
    }

    /// Orders records by the length of their keys in characters, then by the keys' bytes, as SQLite does.
    private static func ordered(_ records: [Record]) -> [Record] {
        let isBefore = { (one: Record, other: Record) -> Bool in
            let length = length(of: one.key)
            let otherLength = self.length(of: other.key)
            return length == otherLength ? one.key.utf8.lexicographicallyPrecedes(other.key.utf8) : length < otherLength
        }
        // New records mostly come in the order of their ids.
        guard zip(records, records.dropFirst()).contains(where: { isBefore($1, $0) }) else { return records }
        return records.sorted(by: isBefore)
    }

    /// Returns the number of a key's characters, as SQLite's `length` counts them.
    package static func length(of key: String) -> Int {
        var key = key
        return key.withUTF8 { bytes in bytes.count { $0 & 0xC0 != 0x80 } }
    }

    /// The size of a piece in bytes, unless an indivisible part is longer.
    package static let pieceBytes = 64 << 10

    private struct Pieces {
        private var piece: [UInt8] = []

        mutating func append(_ bytes: some Collection<UInt8>, _ take: (String) throws -> Void) rethrows {
            if !piece.isEmpty, piece.count + bytes.count > pieceBytes { try flush(take) }
            piece += bytes
        }

        mutating func flush(_ take: (String) throws -> Void) rethrows {
            try take(String(decoding: piece, as: UTF8.self))
            piece.removeAll(keepingCapacity: true)
        }
    }
}

/// The text of a revision, in pieces of some 64 KiB.
///
/// A long one is made of its records when it is needed, as long as the text of the request is in memory.
package enum RevisionText {
    case pieces([String])
    case long(ChangeSetText, envelope: [String])

    /// Renders a text, and keeps it if it is short; `take` gets each piece.
    package init(_ text: ChangeSetText, envelope: [String], _ take: (String) -> Void) {
        var first: String?
        var isLong = false
        text.render(envelope) { piece in
            take(piece)
            isLong = first != nil
            first = first ?? piece
        }
        self = isLong ? .long(text, envelope: envelope) : .pieces(first.map { [$0] } ?? [])
    }

    /// Passes on each piece.
    package func render(_ take: (String) throws -> Void) rethrows {
        switch self {
        case .pieces(let pieces): for piece in pieces { try take(piece) }
        case .long(let text, let envelope): try text.render(envelope, take)
        }
    }

    package var whole: String {
        var text = ""
        render { text += $0 }
        return text
    }
}
