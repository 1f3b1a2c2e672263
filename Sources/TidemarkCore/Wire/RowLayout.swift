import Crypto

/// The form of a table's rows in JSON, and their hash: made once for a schema.
///
/// A row is the values of all columns, in the order of ``SyncedTable/columns``.
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
            table.columns.enumerated().map { ($1.name, $0) },
            uniquingKeysWith: { first, _ in first }
        )
        keyPlaces = table.key.compactMap { places[$0] }
        let isKey = Set(keyPlaces)
        valuePlaces = table.columns.indices.filter { !isKey.contains($0) }
        columnCount = table.columns.count
        placesByMember = Dictionary(
            valuePlaces.map { (WireName.member(column: table.columns[$0].name), $0) },
            uniquingKeysWith: { first, _ in first }
        )
        hashedPlaces = valuePlaces.sorted {
            // The closing quotation mark does not count: it would follow a longer name's next byte.
            names[$0].utf8.dropLast().lexicographicallyPrecedes(names[$1].utf8.dropLast())
        }
        hashedTable = Array("\(JSONText.quote(table.name))\t".utf8)
        keyKind = table.keyKind
    }

    /// Appends the member of a column: its name and value.
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

    /// Returns the key of a row in canonical JSON.
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
    ///
    /// - Throws: ``TidemarkError`` when the text is no object, or no value is one of the protocol's.
    package func row(key: String, object: String) throws(TidemarkError) -> [Value] {
        var row = [Value](repeating: .null, count: columnCount)
        for (place, value) in zip(keyPlaces, Value.parts(ofKey: key)) { row[place] = value }
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
                do throws(InvalidValue) { row[place] = try reader.value(of: cell) } catch {
                    throw TidemarkError(
                        .internalFailure,
                        "A captured row cannot be read.",
                        fix: "Please report this.",
                        place: .init(key: key)
                    )
                }
            }
        }
        return row
    }

    /// Whether a member is that of a column, as ``object(_:)`` writes it.
    private func isName(_ name: JSONReader.Text, of place: Int, in reader: JSONReader) -> Bool {
        members[place].dropFirst().dropLast(2).elementsEqual(reader.bytes[name.range])
    }

    /// Appends a key as the name of its attributes.
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
                low: UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
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
