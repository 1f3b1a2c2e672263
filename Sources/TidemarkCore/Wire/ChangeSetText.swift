import Crypto

/// A change set in the protocol's JSON, made from its records.
///
/// The records of a table are ordered by the length of their keys, then by the keys' bytes. The author of a change set
/// gets the same text with the keys under which it knows its records.
package struct ChangeSetText {
    private struct Record {
        let key: String
        let operation: Operation
        /// The key under which the author knows it.
        let authorsKey: String?
        /// Its members in the buffer of its table; nil for a record that only has keys.
        let members: Range<Int>?
        let isAuthors: Bool
    }

    private struct Table {
        var records: [Record] = []
        var members: [UInt8] = []
    }

    private let schema: SyncSchema
    private let layouts: [RowLayout]
    private var tables: [Int: Table] = [:]

    package init(_ schema: SyncSchema) {
        self.schema = schema
        layouts = schema.layouts
    }

    /// The number of records that everybody gets.
    package var count: Int { tables.values.reduce(0) { count, table in count + table.records.count { !$0.isAuthors } } }

    /// Adds a record that a revision created or updated: some of its columns.
    package mutating func add(
        _ name: RecordID, _ operation: Operation, row: [Value], columns: some Sequence<Int>, revision: Int64,
        authorsKey: String? = nil
    ) {
        let layout = layouts[name.table]
        addMembers(of: name, operation, authorsKey: authorsKey) { output in
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
            Record(key: name.key, operation: operation, authorsKey: nil, members: nil, isAuthors: false))
    }

    /// Adds a record for the author alone: its former key, and its revision if there is one.
    package mutating func addForAuthor(_ name: RecordID, _ operation: Operation, key: String, revision: Int64?) {
        addMembers(of: name, operation, authorsKey: key, isAuthors: true) { output in
            if let revision { Self.append(revision: revision, to: &output) }
        }
    }

    private mutating func addMembers(
        of name: RecordID, _ operation: Operation, authorsKey: String?, isAuthors: Bool = false,
        append: (inout [UInt8]) -> Void
    ) {
        // The buffer is taken out, so that it is not copied.
        var table = tables.removeValue(forKey: name.table) ?? Table()
        let start = table.members.count
        append(&table.members)
        table.records.append(
            Record(
                key: name.key, operation: operation, authorsKey: authorsKey, members: start..<table.members.count,
                isAuthors: isAuthors))
        tables[name.table] = table
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

    /// Returns the text in pieces of some 64 KiB, so that nobody copies a long text as a whole.
    package func pieces(_ envelope: [String], forAuthor: Bool = false) -> [String] {
        var pieces = Pieces()
        let shown = tables.keys.sorted().compactMap { place -> (place: Int, records: [Record], members: [UInt8])? in
            guard let table = tables[place] else { return nil }
            let records = Self.ordered(forAuthor ? table.records : table.records.filter { !$0.isAuthors })
            return records.isEmpty ? nil : (place, records, table.members)
        }
        let names = shown.map { JSONText.quote(WireName.member(table: schema.tables[$0.place].name)) }
        pieces.append("{\((envelope + [#""types":[\#(names.joined(separator: ","))]"#]).joined(separator: ","))".utf8)
        for (name, table) in zip(names, shown) {
            pieces.append(",\(name):{".utf8)
            for operation in [Operation.create, .update, .delete] {
                pieces.append("\"\(operation.rawValue)\":[".utf8)
                var isFirst = true
                for record in table.records where record.operation == operation {
                    if !isFirst { pieces.append(CollectionOfOne(UInt8(ascii: ","))) }
                    pieces.append(record.key.utf8)
                    isFirst = false
                }
                pieces.append("],".utf8)
            }
            pieces.append(#""attributes":{"#.utf8)
            append(table.records, table.members, of: layouts[table.place], forAuthor: forAuthor, to: &pieces)
            pieces.append("}}".utf8)
        }
        pieces.append("}".utf8)
        pieces.flush()
        return pieces.all
    }

    private func append(
        _ records: [Record], _ members: [UInt8], of layout: RowLayout, forAuthor: Bool, to pieces: inout Pieces
    ) {
        var isFirst = true
        var output: [UInt8] = []
        for record in records {
            guard let range = record.members else { continue }
            output.removeAll(keepingCapacity: true)
            if !isFirst { output.append(UInt8(ascii: ",")) }
            isFirst = false
            layout.appendName(of: record.key, to: &output)
            output += ":{".utf8
            if forAuthor, let key = record.authorsKey {
                output += #""__oldId__":"#.utf8
                output += key.utf8
                if !range.isEmpty { output.append(UInt8(ascii: ",")) }
            }
            output += members[range]
            output.append(UInt8(ascii: "}"))
            pieces.append(output)
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

    private struct Pieces {
        static let bytesTarget = 64 << 10
        private(set) var all: [String] = []
        private var piece: [UInt8] = []

        mutating func append(_ bytes: some Collection<UInt8>) {
            if !piece.isEmpty, piece.count + bytes.count > Self.bytesTarget { flush() }
            piece += bytes
        }

        mutating func flush() {
            all.append(String(decoding: piece, as: UTF8.self))
            piece.removeAll(keepingCapacity: true)
        }
    }
}
