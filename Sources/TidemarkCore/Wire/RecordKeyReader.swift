/// Reads the keys of a table's records in their canonical form.
///
/// An integer key is a number, the key of one TEXT column a string, and any other one canonical JSON: a value, or an
/// array of the key's values. The attributes of a record have the key as a name: a number or a string as its
/// characters, any other key as its JSON.
struct RecordKeyReader {
    private let table: WireNames.Table

    init(_ table: WireNames.Table) { self.table = table }

    /// Reads a key in a list, at most as long as the largest value.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidKey``.
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

    /// Returns the canonical key that a name in `attributes` stands for.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidKey``.
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
                    .invalidKey,
                    "A key contains NUL, or an escape that is not a character.",
                    fix: "Give the record a key of other characters."
                )
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
            place: .init(key: String(decoding: JSONParts.compact(reader.bytes[cell.range]), as: UTF8.self))
        )
    }

    private func invalid(_ reason: String, key: String?) -> TidemarkError {
        TidemarkError(
            .invalidKey,
            "A value \(reason).",
            fix: "PROTOCOL.md lists the JSON form of every SQLite value.",
            place: .init(key: key)
        )
    }
}
