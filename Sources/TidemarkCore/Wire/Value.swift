/// A value of a column, as SQLite stores it, and as the wire's JSON has it: `Docs/PROTOCOL.md`.
package enum Value: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    /// Text without NUL.
    case text(String)
    /// Text with NUL, or whose bytes are not UTF-8.
    case rawText([UInt8])
    case blob([UInt8])

    package init(text bytes: [UInt8]) {
        if !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) {
            self = .text(text)
        } else {
            self = .rawText(bytes)
        }
    }

    package init(text bytes: UnsafeBufferPointer<UInt8>) {
        if !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) {
            self = .text(text)
        } else {
            self = .rawText(Array(bytes))
        }
    }

    package init(json: String) throws(InvalidValue) {
        self = try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(InvalidValue) in try Value(json: bytes) }
    }

    package init(json bytes: UnsafeBufferPointer<UInt8>) throws(InvalidValue) {
        var reader: JSONReader
        let cell: Cell
        do throws(TidemarkError) {
            reader = try JSONReader(bytes)
            cell = try reader.cell()
            try reader.finish()
        } catch { throw InvalidValue(reason: "is no JSON value") }
        self = try reader.value(of: cell)
    }

    /// The canonical JSON: equal texts mean equal types and values.
    package var canonicalJSON: [UInt8] {
        var output: [UInt8] = []
        appendJSON(to: &output)
        return output
    }

    package func appendJSON(to output: inout [UInt8]) {
        switch self {
        case .null: output += "null".utf8
        case .integer(let value): JSONText.append(value, to: &output)
        case .real(let value): JSONText.append(value, to: &output)
        case .text(var text): text.withUTF8 { JSONText.append(text: $0, to: &output) }
        case .rawText(let bytes): bytes.withUnsafeBufferPointer { JSONText.append(tag: "$text", $0, to: &output) }
        case .blob(let bytes): bytes.withUnsafeBufferPointer { JSONText.append(tag: "$blob", $0, to: &output) }
        }
    }
}

/// The reason why no column can hold a JSON value.
package struct InvalidValue: Error, Equatable {
    /// The reason, as words that follow a column's name.
    package let reason: String

    package init(reason: String) { self.reason = reason }
}

extension Value {
    /// Returns the values of a key in canonical JSON: one, or those of a composite key.
    package static func parts(ofKey key: String) -> [Value] {
        if let id = Int64(key) { return [.integer(id)] }
        // A canonical key is what this product has written, so it has no faults.
        do throws(TidemarkError) {
            return try Array(key.utf8).withUnsafeBufferPointer { (bytes) throws(TidemarkError) -> [Value] in
                var reader = try JSONReader(bytes)
                var cells: [Cell] = []
                if try reader.kind() == .array {
                    try reader.array { (reader) throws(TidemarkError) in cells.append(try reader.cell()) }
                } else {
                    cells.append(try reader.cell())
                }
                return cells.map { cell in
                    do throws(InvalidValue) { return try reader.value(of: cell) } catch { return .null }
                }
            }
        } catch { return [] }
    }

    /// Returns the canonical JSON of a key of several values.
    package static func key(ofParts parts: [Value]) -> String {
        var output: [UInt8] = []
        if parts.count > 1 { output.append(UInt8(ascii: "[")) }
        for (index, part) in parts.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            part.appendJSON(to: &output)
        }
        if parts.count > 1 { output.append(UInt8(ascii: "]")) }
        return String(decoding: output, as: UTF8.self)
    }
}

extension Value {
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    /// The text, if it is one without NUL.
    package var text: String? { if case .text(let text) = self { text } else { nil } }
}

/// A value in a JSON text: its type and position, in 12 bytes, because a request of 100,000 rows has a million of them.
package struct Cell: Hashable, Sendable {
    package enum Kind: UInt8, Sendable {
        case null
        case `true`
        case `false`
        case integer
        case real
        case text
        case escapedText
        /// A tagged value such as `{"$blob":"AP8="}`, or a delta.
        case object
        case array
    }

    package let kind: Kind
    private let start: UInt32
    private let count: UInt32

    package init(_ kind: Kind, _ range: Range<Int>) {
        self.kind = kind
        start = UInt32(range.lowerBound)
        count = UInt32(range.count)
    }

    /// The position; that of a string is without its quotes.
    package var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
}

extension JSONReader {
    package mutating func cell() throws(TidemarkError) -> Cell {
        switch try kind() {
        case .string:
            let text = try string()
            return Cell(text.hasEscapes ? .escapedText : .text, text.range)
        case .number:
            let number = try number()
            return Cell(number.isInteger ? .integer : .real, number.range)
        case .null: return Cell(.null, try skip())
        case .true: return Cell(.true, try skip())
        case .false: return Cell(.false, try skip())
        case .object: return Cell(.object, try skip())
        case .array: return Cell(.array, try skip())
        }
    }

    /// Returns the value of a cell of this text; throws if no column can hold it.
    package func value(of cell: Cell) throws(InvalidValue) -> Value {
        switch cell.kind {
        case .null: return .null
        case .true: return .integer(1)
        case .false: return .integer(0)
        case .integer:
            guard let value = integer(in: cell.range) else {
                throw InvalidValue(reason: "is an integer beyond 64 bits")
            }
            return .integer(value)
        case .real:
            guard let value = Double(String(decoding: bytes[cell.range], as: UTF8.self)), value.isFinite else {
                throw InvalidValue(reason: "is a number beyond the range of a double")
            }
            return .real(value)
        case .text: return .text(String(decoding: bytes[cell.range], as: UTF8.self))
        case .escapedText: return Value(text: try bytes(of: Text(range: cell.range, hasEscapes: true)))
        case .object: return try taggedValue(in: cell.range)
        case .array: throw InvalidValue(reason: "is an array; a column holds a single value")
        }
    }

    /// Returns the characters of a string without NUL; nil for another value.
    package func plainText(of cell: Cell) -> String? {
        switch cell.kind {
        case .text: return String(decoding: bytes[cell.range], as: UTF8.self)
        case .escapedText:
            let decoded = Result { () throws(InvalidValue) in try bytes(of: Text(range: cell.range, hasEscapes: true)) }
            guard case .success(let bytes) = decoded, !bytes.contains(0) else { return nil }
            return String(decoding: bytes, as: UTF8.self)
        default: return nil
        }
    }

    /// Returns the number of digits with a sign; nil if it is beyond 64 bits.
    package func integer(in range: Range<Int>) -> Int64? {
        var value: Int64 = 0
        let isNegative = bytes[range.lowerBound] == UInt8(ascii: "-")
        for byte in bytes[(isNegative ? range.dropFirst() : range[...])] {
            let digit = Int64(byte - UInt8(ascii: "0"))
            let (tens, overflows) = value.multipliedReportingOverflow(by: 10)
            let (sum, overflowsToo) =
                isNegative ? tens.subtractingReportingOverflow(digit) : tens.addingReportingOverflow(digit)
            guard !overflows, !overflowsToo else { return nil }
            value = sum
        }
        return value
    }

    /// Returns the number of a delta, `{"$add":-2}`; nil for another value, or if it is no 64-bit integer.
    package func delta(of cell: Cell) -> (isDelta: Bool, number: Int64?) {
        guard cell.kind == .object, let member = onlyMember(of: cell.range), equals(member.name, "$add") else {
            return (false, nil)
        }
        guard member.cell.kind == .integer, let number = integer(in: member.cell.range),
            bytes[member.cell.range].elementsEqual(String(number).utf8)
        else { return (true, nil) }
        return (true, number)
    }

    private func taggedValue(in range: Range<Int>) throws(InvalidValue) -> Value {
        guard let member = onlyMember(of: range) else { throw InvalidValue(reason: Self.unknownTag) }
        if equals(member.name, "$add") {
            throw InvalidValue(reason: "is a delta; only a column with the policy add has one")
        }
        guard [.text, .escapedText].contains(member.cell.kind) else { throw InvalidValue(reason: Self.unknownTag) }
        let content = Text(range: member.cell.range, hasEscapes: member.cell.kind == .escapedText)
        if equals(member.name, "$real") {
            if equals(content, "Infinity") { return .real(.infinity) }
            if equals(content, "-Infinity") { return .real(-.infinity) }
        }
        let isBlob = equals(member.name, "$blob")
        guard isBlob || equals(member.name, "$text"), let decoded = try decodeBase64(content) else {
            throw InvalidValue(reason: Self.unknownTag)
        }
        return isBlob ? .blob(decoded) : Value(text: decoded)
    }

    private func decodeBase64(_ text: Text) throws(InvalidValue) -> [UInt8]? {
        guard text.hasEscapes else { return Base64.decode(UnsafeBufferPointer(rebasing: bytes[text.range])) }
        return try bytes(of: text).withUnsafeBufferPointer { Base64.decode($0) }
    }

    /// Returns the member of an object that has no other one.
    private func onlyMember(of range: Range<Int>) -> (name: Text, cell: Cell)? {
        var reader = reader(at: range.lowerBound)
        var members: [(name: Text, cell: Cell)] = []
        do throws(TidemarkError) {
            try reader.object { (reader, name) throws(TidemarkError) in members.append((name, try reader.cell())) }
        } catch { return nil }
        return members.count == 1 ? members[0] : nil
    }

    private static let unknownTag =
        #"is an object, but neither {"$blob":"<base64>"}, {"$text":"<base64>"} nor {"$real":"Infinity"}"#
}

/// The largest value in a request, because memory holds several copies; larger served values still reach devices.
package struct ValueBound: Sendable {
    package struct Excess: Hashable, Sendable {
        package let column: String
        /// The size of the value in a row, in bytes.
        package let bytes: Int
    }

    /// The largest size of a value in a row, in bytes.
    package let bytesMax: Int
    /// The most bytes of a string in JSON: as base64 a value is longer by a third, and has its own check.
    package var stringMax: Int { bytesMax > Int.max / 4 ? .max : (bytesMax + 3) / 3 * 4 }
    package init(_ limits: Limits) { bytesMax = limits.valueBytesMax }

    /// Finds the first too large value in attributes, except columns in `unsent`; throws if they are no JSON object.
    package func excess(in attributes: UnsafeBufferPointer<UInt8>, unsent: Set<String> = []) throws(TidemarkError)
        -> Excess?
    {
        var reader = try JSONReader(attributes)
        var first: Excess?
        try reader.object { (reader, name) throws(TidemarkError) in
            let bytes = size(of: try reader.cell(), in: reader)
            guard first == nil, bytes > bytesMax, !unsent.contains(reader.text(of: name)) else { return }
            first = Excess(column: reader.text(of: name), bytes: bytes)
        }
        return first
    }

    package func refusal(_ excess: Excess, at place: TidemarkError.Place) -> TidemarkError {
        var place = place
        place.column = excess.column
        return TidemarkError(
            .tooLarge,
            """
            The value of \(excess.column) has \(excess.bytes) bytes; a synced value has at most \(bytesMax), \
            since it is in memory several times.
            """,
            fix: """
                Keep it in a file beside the database and sync the file's path, or raise the limit at the server and \
                on every device.
                """,
            place: place)
    }
}

extension ValueBound {
    /// Refuses a too large value; the caller adds its place.
    func check(_ cell: Cell, of column: String, in reader: JSONReader) throws(TidemarkError) {
        let bytes = size(of: cell, in: reader)
        if bytes > bytesMax { throw refusal(Excess(column: column, bytes: bytes), at: .init()) }
    }

    /// Refuses a key that is longer than any value.
    func checkKey(_ cell: Cell) throws(TidemarkError) {
        guard cell.range.count > bytesMax else { return }
        throw TidemarkError(
            .tooLarge, "A key has \(cell.range.count) bytes; a synced value has at most \(bytesMax).",
            fix: "Give the record a shorter key.")
    }

    /// Returns the size of a value in a row, in bytes; 0 for a number or NULL.
    private func size(of cell: Cell, in reader: JSONReader) -> Int {
        switch cell.kind {
        case .text: return cell.range.count
        // Most values are short, and their size is not computed.
        case .escapedText where cell.range.count > bytesMax, .object where cell.range.count > bytesMax:
            do throws(InvalidValue) { return try reader.value(of: cell).byteCount } catch { return 0 }
        default: return 0
        }
    }
}

extension Value {
    /// The size of text or a blob in bytes; 0 for other values.
    var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .rawText(let bytes), .blob(let bytes): bytes.count
        case .null, .integer, .real: 0
        }
    }
}
