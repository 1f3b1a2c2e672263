/// A value in a JSON text: its type and its position.
///
/// A request of 100,000 rows has a million of them, so a cell is 12 bytes. A ``Value`` is made when it is bound to a
/// statement or compared.
package struct Cell: Hashable, Sendable {
    /// The type of the value in the text.
    package enum Kind: UInt8, Sendable {
        case null
        case `true`
        case `false`
        case integer
        case real
        /// A string without escapes.
        case text
        /// A string with escapes.
        case escapedText
        /// A tagged value such as `{"$blob":"AP8="}`, or a delta.
        case object
        case array
    }

    /// The type.
    package let kind: Kind
    private let start: UInt32
    private let count: UInt32

    /// Creates a cell; the position of a string is without its quotes.
    package init(_ kind: Kind, _ range: Range<Int>) {
        self.kind = kind
        start = UInt32(range.lowerBound)
        count = UInt32(range.count)
    }

    /// The position; that of a string is without its quotes.
    package var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
}

extension JSONReader {
    /// Reads the next value as a cell.
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

    /// Returns the value of a cell of this text.
    ///
    /// - Throws: ``InvalidValue`` if no column can hold it.
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
            let decoded = Result { () throws(InvalidValue) in
                try bytes(of: Text(range: cell.range, hasEscapes: true))
            }
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
