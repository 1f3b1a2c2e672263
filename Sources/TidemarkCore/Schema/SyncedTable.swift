import Crypto

/// A synced table, as SQLite's introspection describes it; every table or column name in SQL comes from here.
package struct SyncedTable: Hashable, Sendable, Codable {
    /// A synced column; generated columns are not listed, because each side computes them.
    package struct Column: Hashable, Sendable, Codable {
        package let name: String
        /// The declared type, possibly empty.
        package let type: String
        package let isNotNull: Bool
        package let defaultSQL: String?

        package init(name: String, type: String, isNotNull: Bool, defaultSQL: String?) {
            self.name = name
            self.type = type
            self.isNotNull = isNotNull
            self.defaultSQL = defaultSQL
        }

        /// SQLite's type affinity, which decides how it converts stored values.
        package var affinity: String {
            let type = type.uppercased()
            let has = { (words: [String]) in words.contains { type.contains($0) } }
            if has(["INT"]) { return "INTEGER" }
            if has(["CHAR", "CLOB", "TEXT"]) { return "TEXT" }
            if type.isEmpty || has(["BLOB"]) { return "BLOB" }
            return has(["REAL", "FLOA", "DOUB"]) ? "REAL" : "NUMERIC"
        }
    }

    /// The author and the JSON form of a table's keys.
    package enum KeyKind: String, Hashable, Sendable, Codable {
        /// An `INTEGER PRIMARY KEY` or the rowid, in JSON a number: the server replaces temporary ids.
        case integer
        /// One column of TEXT affinity, in JSON a string: the client chooses the key.
        case text
        /// Any other key, such as a composite one, as canonical JSON: the client chooses it.
        case general
    }

    package struct Reference: Hashable, Sendable, Codable {
        /// The action on children when their parent is deleted.
        package enum Action: String, Hashable, Sendable, Codable {
            /// Refuse the deletion at the end of the statement or transaction.
            case noAction = "NO ACTION"
            /// Refuse the deletion at once.
            case restrict = "RESTRICT"
            case setNull = "SET NULL"
            case setDefault = "SET DEFAULT"
            case cascade = "CASCADE"
        }

        package let columns: [String]
        package let parent: String
        /// The referenced columns, in the order of `columns`.
        package let parentColumns: [String]
        package let onDelete: Action

        package init(columns: [String], parent: String, parentColumns: [String], onDelete: Action) {
            self.columns = columns
            self.parent = parent
            self.parentColumns = parentColumns
            self.onDelete = onDelete
        }
    }

    package let name: String
    /// The synced columns in table order, including the key.
    package private(set) var columns: [Column]
    /// The key's columns in key order; without a primary key it may be `rowid`, which `columns` then has, too.
    package let key: [String]
    package let keyKind: KeyKind
    /// Whether an `INSERT` without an id takes it from `sqlite_sequence`.
    package let isAutoincrement: Bool
    package private(set) var references: [Reference]
    /// The columns of each unique constraint or unique index except the primary key.
    package let uniques: [[String]]
    /// Whether a unique index covers an expression or a generated column: SQLite does not report their columns.
    package let hasComputedUniques: Bool
    /// The columns of partial unique indexes, sorted, or all if one has an expression; nil if there is no such index.
    package let partiallyUnique: [String]?
    package let sql: String
    /// The `CREATE INDEX` statements, in creation order.
    package let indexSQL: [String]
    /// Properties that the statement does not show; nil for an ordinary table.
    package private(set) var traits: TableTraits?

    package init(
        name: String, columns: [Column], key: [String], keyKind: KeyKind, isAutoincrement: Bool,
        references: [Reference], uniques: [[String]], hasComputedUniques: Bool = false,
        partiallyUnique: [String]? = nil, sql: String, indexSQL: [String], traits: TableTraits? = nil
    ) {
        self.name = name
        self.columns = columns
        self.key = key
        self.keyKind = keyKind
        self.isAutoincrement = isAutoincrement
        self.references = references
        self.uniques = uniques
        self.sql = sql
        self.indexSQL = indexSQL
        self.hasComputedUniques = hasComputedUniques
        self.partiallyUnique = partiallyUnique
        self.traits = traits
    }

    package func with(columns: [Column], references: [Reference]) -> SyncedTable {
        var table = self
        table.columns = columns
        table.references = references
        return table
    }

    package func with(traits: TableTraits?) -> SyncedTable {
        var table = self
        table.traits = traits
        return table
    }

    /// The columns that are not part of the key.
    package var valueColumns: [Column] { columns.filter { !key.contains($0.name) } }
}

/// The form of a table's rows in JSON, and their hash; a row is the values of ``SyncedTable/columns`` in their order.
package struct RowLayout: Sendable {
    /// The places of the columns that are not part of the key, in the table's order.
    package let valuePlaces: [Int]
    /// The places of the key's columns, in key order.
    package let keyPlaces: [Int]
    /// The name of each column as a member, with its colon.
    private let members: [[UInt8]]
    /// The place of each column that is not part of the key, by its name as a member.
    private let placesByMember: [String: Int]
    private let columnCount: Int
    /// The places of the columns of a row's hashed form, by the bytes of their names.
    private let hashedPlaces: [Int]
    /// What precedes the key in the text that is hashed.
    private let hashedTable: [UInt8]
    private let keyKind: SyncedTable.KeyKind

    init(_ table: SyncedTable) {
        let names = table.columns.map { JSONText.quote(WireName.member(column: $0.name)) }
        members = names.map { Array("\($0):".utf8) }
        let places = Dictionary(
            table.columns.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
        keyPlaces = table.key.compactMap { places[$0] }
        let isKey = Set(keyPlaces)
        valuePlaces = table.columns.indices.filter { !isKey.contains($0) }
        columnCount = table.columns.count
        placesByMember = Dictionary(
            valuePlaces.map { (WireName.member(column: table.columns[$0].name), $0) },
            uniquingKeysWith: { first, _ in first })
        hashedPlaces = valuePlaces.sorted {
            // The closing quotation mark does not count: it would follow a longer name's next byte.
            names[$0].utf8.dropLast().lexicographicallyPrecedes(names[$1].utf8.dropLast())
        }
        hashedTable = Array("\(JSONText.quote(table.name))\t".utf8)
        keyKind = table.keyKind
    }

    package func appendMember(_ place: Int, of row: [Value], to output: inout [UInt8]) {
        output += members[place]
        row[place].appendJSON(to: &output)
    }

    /// Appends the members of columns with commas between them.
    package func appendMembers(_ places: some Sequence<Int>, of row: [Value], to output: inout [UInt8]) {
        var isFirst = true
        for place in places {
            if !isFirst { output.append(UInt8(ascii: ",")) }
            appendMember(place, of: row, to: &output)
            isFirst = false
        }
    }

    /// Returns a row without its key as a JSON object, in the table's order.
    package func object(_ row: [Value]) -> String {
        var output = [UInt8(ascii: "{")]
        appendMembers(valuePlaces, of: row, to: &output)
        output.append(UInt8(ascii: "}"))
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns the columns that differ as a JSON object; nil if none does.
    ///
    /// For an integer of the columns `adding` it has the difference from the old one, if 64 bits can hold that.
    package func changes(from old: [Value], to new: [Value], adding: Set<Int>) -> String? {
        var output: [UInt8] = []
        for place in valuePlaces where !old[place].isSame(as: new[place]) {
            output.append(UInt8(ascii: output.isEmpty ? "{" : ","))
            if adding.contains(place), case (.integer(let old), .integer(let new)) = (old[place], new[place]),
                case (let added, false) = new.subtractingReportingOverflow(old)
            {
                output += members[place] + "{\"$add\":\(added)}".utf8
            } else {
                appendMember(place, of: new, to: &output)
            }
        }
        guard !output.isEmpty else { return nil }
        output.append(UInt8(ascii: "}"))
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns values of a row as a JSON object without those above `bytesMax`; nil if none is left.
    package func object(_ row: [Value], of places: [Int], bytesMax: Int) -> String? {
        let short = places.filter { row[$0].byteCount <= bytesMax }
        guard !short.isEmpty else { return nil }
        var output = [UInt8(ascii: "{")]
        appendMembers(short, of: row, to: &output)
        output.append(UInt8(ascii: "}"))
        return String(decoding: output, as: UTF8.self)
    }

    package func key(of row: [Value]) -> String {
        if keyPlaces.count == 1, case .integer(let id) = row[keyPlaces[0]] { return String(id) }
        var output: [UInt8] = []
        if keyPlaces.count > 1 { output.append(UInt8(ascii: "[")) }
        for (index, place) in keyPlaces.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            row[place].appendJSON(to: &output)
        }
        if keyPlaces.count > 1 { output.append(UInt8(ascii: "]")) }
        return String(decoding: output, as: UTF8.self)
    }

    /// Reads a row that ``object(_:)`` or a database has written, without columns that the table does not have.
    package func row(key: String, object: String) throws(TidemarkError) -> [Value] {
        var row = [Value](repeating: .null, count: columnCount)
        for (place, value) in zip(keyPlaces, Value.parts(ofKey: key)) { row[place] = value }
        try readMembers(of: object, key: key) { (place, reader, cell) throws(InvalidValue) in
            row[place] = try reader.value(of: cell)
        }
        return row
    }

    /// Reads the columns of a JSON object that the table has, in their order in the text; `key` is that of its record.
    ///
    /// - Throws: ``TidemarkError`` if the text is no object, and for what `take` throws.
    package func readMembers(
        of object: String, key: String, _ take: (_ place: Int, JSONReader, Cell) throws(InvalidValue) -> Void
    ) throws(TidemarkError) {
        try Array(object.utf8).withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
            var reader = try JSONReader(bytes)
            var next = 0
            try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                // The members mostly come in the table's order.
                let place: Int?
                if next < valuePlaces.count, isName(name, of: valuePlaces[next], in: reader) {
                    place = valuePlaces[next]
                } else {
                    place = placesByMember[reader.text(of: name)]
                }
                next += 1
                let cell = try reader.cell()
                guard let place else { return }
                do throws(InvalidValue) { try take(place, reader, cell) } catch {
                    throw TidemarkError(
                        .internalFailure, "A captured row cannot be read.", fix: "Please report this.",
                        place: .init(key: key))
                }
            }
        }
    }

    /// Whether a member is that of a column, as ``object(_:)`` writes it.
    private func isName(_ name: JSONReader.Text, of place: Int, in reader: JSONReader) -> Bool {
        members[place].dropFirst().dropLast(2).elementsEqual(reader.bytes[name.range])
    }

    package func appendName(of key: String, to output: inout [UInt8]) {
        switch keyKind {
        case .integer:
            output.append(UInt8(ascii: "\""))
            output += key.utf8
            output.append(UInt8(ascii: "\""))
        case .text where key.hasPrefix(#""{\"$"#):
            // A blob in a TEXT column is an object, so its JSON is quoted; a text that looks like one is tagged.
            let tagged = JSONText.tagged(quoted: key)
            output += JSONText.quote(String(decoding: tagged, as: UTF8.self)).utf8
        case .text where key.utf8.first == UInt8(ascii: "\""): output += key.utf8
        case .text, .general: output += JSONText.quote(key).utf8
        }
    }

    /// Returns the hash of a row: the first 16 bytes of SHA-256 of table, TAB, key, TAB, row.
    ///
    /// Canonical JSON contains no TAB, so no two rows have the same text. `buffer` is overwritten.
    package func hash(_ row: [Value], key: String, _ buffer: inout [UInt8]) -> Fingerprint {
        buffer.removeAll(keepingCapacity: true)
        buffer += hashedTable
        buffer += key.utf8
        buffer.append(UInt8(ascii: "\t"))
        buffer.append(UInt8(ascii: "{"))
        appendMembers(hashedPlaces, of: row, to: &buffer)
        buffer.append(UInt8(ascii: "}"))
        return Fingerprint(hashOf: buffer)
    }
}

extension Fingerprint {
    /// Creates the first 16 bytes of SHA-256 of a row's text.
    package init(hashOf bytes: [UInt8]) {
        self = SHA256.hash(data: bytes).withUnsafeBytes {
            Fingerprint(
                high: UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: 0, as: UInt64.self)),
                low: UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }
}

extension JSONText {
    /// Returns the tagged form of a text that is given as a JSON string.
    fileprivate static func tagged(quoted: String) -> [UInt8] {
        var output: [UInt8] = []
        var text = unquote(quoted)
        text.withUTF8 { append(tag: "$text", $0, to: &output) }
        return output
    }
}
