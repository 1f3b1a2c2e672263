/// Reads JSON (RFC 8259) in one pass, and knows the offset of each fault.
///
/// The reader validates as it goes: a caller that has read a value knows that its bytes are JSON, and keeps its range
/// in place of a copy. An object with a name that stands twice is refused, because readers of JSON disagree on which
/// one counts. Besides JSON's own rules there are three of the protocol:
///
/// - a body is UTF-8 and nests no deeper than a limit;
/// - control characters stand in no string, and only as white space between values;
/// - a name has no escape for NUL, a letter, a digit, `$` or `_`, so it has one spelling.
///
/// A reader belongs to one function, because it refers to bytes of the caller. Its errors name no place in a change
/// set: each level that knows a part adds it (``TidemarkCore/TidemarkError/within(_:)``).
package struct JSONReader {
    package enum Kind: Hashable, Sendable {
        case object
        case array
        case string
        case number
        case `true`
        case `false`
        case null
    }

    package struct Text: Hashable, Sendable {
        /// The position of its bytes between the quotes.
        package let range: Range<Int>
        /// Whether it has escapes, so that its bytes are not its characters.
        package let hasEscapes: Bool
    }

    package let bytes: UnsafeBufferPointer<UInt8>
    /// The offset of the next byte to read.
    package private(set) var place = 0
    /// How many bytes of white space stand between the values that have been read.
    package private(set) var whiteSpace = 0
    private let depthMax: Int
    /// The most bytes of a string; an escape counts as one.
    private let stringMax: Int
    private var depth = 0
    /// The names of the open objects, those of the innermost one last.
    private var names: [Text] = []

    /// Creates a reader of a text that nests at most `depthMax` levels; throws if the text is not UTF-8.
    package init(
        _ bytes: UnsafeBufferPointer<UInt8>, depthMax: Int = Limits.standard.jsonDepthMax, stringMax: Int = .max
    ) throws(TidemarkError) {
        guard Self.isUTF8(bytes) else { throw JSONFault.notUTF8 }
        self.init(validated: bytes, depthMax: depthMax, stringMax: stringMax)
    }

    static var empty: JSONReader { JSONReader(validated: .init(start: nil, count: 0)) }

    init(validated bytes: UnsafeBufferPointer<UInt8>, depthMax: Int = 1, stringMax: Int = .max) {
        self.bytes = bytes
        self.depthMax = depthMax
        self.stringMax = stringMax
    }

    package func reader(at place: Int) -> JSONReader {
        var reader = JSONReader(validated: bytes, depthMax: depthMax, stringMax: stringMax)
        reader.place = place
        return reader
    }

    // MARK: Values

    /// Returns the type of the next value, and stays before it.
    package mutating func kind() throws(TidemarkError) -> Kind {
        skipWhiteSpace()
        guard place < bytes.count else { throw fault() }
        switch bytes[place] {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        case UInt8(ascii: "t"): return .true
        case UInt8(ascii: "f"): return .false
        case UInt8(ascii: "n"): return .null
        default: throw fault()
        }
    }

    /// Reads an object and returns its position; `member` reads each value, and compares `unchecked` names itself.
    @discardableResult package mutating func object(
        unchecked: Bool = false, _ member: (inout JSONReader, Text) throws(TidemarkError) -> Void
    ) throws(TidemarkError) -> Range<Int> {
        let start = try enter(UInt8(ascii: "{"))
        let outer = names.count
        var many: Set<String> = []
        if !take(UInt8(ascii: "}")) {
            repeat {
                let name = try name()
                if !unchecked { try insert(name, after: outer, &many) }
                try member(&self, name)
            } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "}"))
        }
        names.removeLast(names.count - outer)
        depth -= 1
        return start..<place
    }

    /// Reads an array and returns its position; `element` reads each value.
    @discardableResult package mutating func array(_ element: (inout JSONReader) throws(TidemarkError) -> Void)
        throws(TidemarkError) -> Range<Int>
    {
        let start = try enter(UInt8(ascii: "["))
        if !take(UInt8(ascii: "]")) {
            repeat { try element(&self) } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "]"))
        }
        depth -= 1
        return start..<place
    }

    package mutating func string() throws(TidemarkError) -> Text {
        try expect(UInt8(ascii: "\""))
        return try restOfString(isName: false)
    }

    /// Returns the position of a number's characters, and whether it has neither a fraction nor an exponent.
    package mutating func number() throws(TidemarkError) -> (range: Range<Int>, isInteger: Bool) {
        skipWhiteSpace()
        let start = place
        var isInteger = true
        skip(UInt8(ascii: "-"))
        if !skip(UInt8(ascii: "0")) { try digits() }
        if skip(UInt8(ascii: ".")) {
            isInteger = false
            try digits()
        }
        if skip(UInt8(ascii: "e")) || skip(UInt8(ascii: "E")) {
            isInteger = false
            if !skip(UInt8(ascii: "+")) { skip(UInt8(ascii: "-")) }
            try digits()
        }
        return (start..<place, isInteger)
    }

    /// Reads any value, keeps nothing and returns its position; `unchecked`, names may stand twice.
    @discardableResult package mutating func skip(unchecked: Bool = false) throws(TidemarkError) -> Range<Int> {
        switch try kind() {
        case .object:
            return try object(unchecked: unchecked) { (reader, _) throws(TidemarkError) in
                try reader.skip(unchecked: unchecked)
            }
        case .array: return try array { (reader) throws(TidemarkError) in try reader.skip(unchecked: unchecked) }
        case .string:
            let text = try string()
            return text.range.lowerBound - 1..<text.range.upperBound + 1
        case .number: return try number().range
        case .true: return try word("true")
        case .false: return try word("false")
        case .null: return try word("null")
        }
    }

    /// Refuses anything but white space after the last value.
    package mutating func finish() throws(TidemarkError) {
        skipWhiteSpace()
        guard place == bytes.count else { throw fault() }
    }

    // MARK: Strings

    /// Whether a string is a text, which has no escapes.
    package func equals(_ string: Text, _ text: StaticString) -> Bool {
        guard !string.hasEscapes, string.range.count == text.utf8CodeUnitCount else { return false }
        return (0..<string.range.count).allSatisfy { bytes[string.range.lowerBound + $0] == text.utf8Start[$0] }
    }

    /// Returns the characters of a string; a wrong escape is replaced, as ``bytes(of:)`` refuses it.
    package func text(of string: Text) -> String {
        guard string.hasEscapes else { return String(decoding: bytes[string.range], as: UTF8.self) }
        do { return String(decoding: try bytes(of: string), as: UTF8.self) } catch {
            return String(decoding: bytes[string.range], as: UTF8.self)
        }
    }

    /// Returns the characters of a string in UTF-8; throws if an escape is half a surrogate pair.
    package func bytes(of string: Text) throws(InvalidValue) -> [UInt8] {
        guard string.hasEscapes else { return Array(bytes[string.range]) }
        var output: [UInt8] = []
        output.reserveCapacity(string.range.count)
        var place = string.range.lowerBound
        while place < string.range.upperBound {
            guard bytes[place] == UInt8(ascii: "\\") else {
                output.append(bytes[place])
                place += 1
                continue
            }
            let escape = bytes[place + 1]
            place += 2
            switch escape {
            case UInt8(ascii: "b"): output.append(0x08)
            case UInt8(ascii: "t"): output.append(0x09)
            case UInt8(ascii: "n"): output.append(0x0A)
            case UInt8(ascii: "f"): output.append(0x0C)
            case UInt8(ascii: "r"): output.append(0x0D)
            case UInt8(ascii: "u"):
                output += UTF8.encode(try character(at: &place, before: string.range.upperBound)).map(Array.init) ?? []
            default: output.append(escape)
            }
        }
        return output
    }

    /// Reads the digits after `\u`, and the second half of a surrogate pair.
    private func character(at place: inout Int, before end: Int) throws(InvalidValue) -> Unicode.Scalar {
        var value = codeUnit(at: place)
        place += 4
        if 0xD800..<0xDC00 ~= value, place + 6 <= end, bytes[place] == UInt8(ascii: "\\"),
            bytes[place + 1] == UInt8(ascii: "u")
        {
            let low = codeUnit(at: place + 2)
            if 0xDC00..<0xE000 ~= low {
                value = 0x10000 + (value - 0xD800) << 10 + low - 0xDC00
                place += 6
            }
        }
        guard let scalar = Unicode.Scalar(value) else {
            throw InvalidValue(reason: "is a string with an escape that is not a character")
        }
        return scalar
    }

    private func codeUnit(at place: Int) -> UInt32 {
        bytes[place..<place + 4].reduce(0) { $0 << 4 | UInt32(Self.hexDigit($1) ?? 0) }
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    // MARK: Bytes

    private var byte: UInt8? { place < bytes.count ? bytes[place] : nil }

    private mutating func skipWhiteSpace() {
        while place < bytes.count, Self.isWhiteSpace(bytes[place]) {
            place += 1
            whiteSpace += 1
        }
    }

    private static func isWhiteSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    @discardableResult private mutating func skip(_ wanted: UInt8) -> Bool {
        guard place < bytes.count, bytes[place] == wanted else { return false }
        place += 1
        return true
    }

    private mutating func take(_ wanted: UInt8) -> Bool {
        skipWhiteSpace()
        return skip(wanted)
    }

    private mutating func expect(_ wanted: UInt8) throws(TidemarkError) { guard take(wanted) else { throw fault() } }

    private mutating func enter(_ bracket: UInt8) throws(TidemarkError) -> Int {
        try expect(bracket)
        depth += 1
        guard depth <= depthMax else { throw JSONFault.tooDeep(depthMax) }
        return place - 1
    }

    private mutating func digits() throws(TidemarkError) {
        let start = place
        while place < bytes.count, bytes[place] >= UInt8(ascii: "0"), bytes[place] <= UInt8(ascii: "9") { place += 1 }
        guard place > start else { throw fault() }
    }

    private mutating func word(_ word: StaticString) throws(TidemarkError) -> Range<Int> {
        let range = place..<place + word.utf8CodeUnitCount
        guard range.upperBound <= bytes.count,
            range.allSatisfy({ bytes[$0] == word.utf8Start[$0 - range.lowerBound] })
        else { throw fault() }
        place = range.upperBound
        return range
    }

    /// Reads a name with its colon.
    private mutating func name() throws(TidemarkError) -> Text {
        try expect(UInt8(ascii: "\""))
        let name = try restOfString(isName: true)
        try expect(UInt8(ascii: ":"))
        return name
    }

    private mutating func restOfString(isName: Bool) throws(TidemarkError) -> Text {
        let start = place
        var hasEscapes = false
        var escapeBytes = 0
        while place < bytes.count {
            switch bytes[place] {
            case UInt8(ascii: "\""):
                place += 1
                let count = place - 1 - start - escapeBytes
                guard count <= stringMax else { throw JSONFault.longString(count, stringMax) }
                return Text(range: start..<place - 1, hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                let escape = place
                try self.escape(isName: isName)
                escapeBytes += place - escape - 1
            case ..<0x20: throw fault()
            default: place += 1
            }
        }
        throw fault()
    }

    private mutating func escape(isName: Bool) throws(TidemarkError) {
        place += 1
        guard let byte, "\"\\/bfnrtu".utf8.contains(byte) else { throw fault() }
        place += 1
        guard byte == UInt8(ascii: "u") else { return }
        for _ in 0..<4 {
            guard let digit = self.byte, Self.hexDigit(digit) != nil else { throw fault() }
            place += 1
        }
        if isName, let code = UInt8(exactly: codeUnit(at: place - 4)), Self.isPlain(code) {
            throw JSONFault.escapedName(code)
        }
    }

    /// Whether a character needs no escape in a name: SQL compares names by their spelling.
    private static func isPlain(_ code: UInt8) -> Bool {
        switch code {
        case 0, UInt8(ascii: "$"), UInt8(ascii: "_"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: false
        }
    }

    // MARK: Names

    /// The most names of an object that are compared one by one.
    private static let namesMax = 24

    private mutating func insert(_ name: Text, after outer: Int, _ many: inout Set<String>) throws(TidemarkError) {
        let isNew: Bool
        if names.count - outer < Self.namesMax {
            isNew = !names[outer...].contains { isSame($0, name) }
        } else {
            if many.isEmpty { many = Set(names[outer...].map(text)) }
            isNew = many.insert(text(of: name)).inserted
        }
        guard isNew || planted(PlantedBug.takesNamesTwice) else { throw JSONFault.repeatedName(text(of: name)) }
        names.append(name)
    }

    /// Whether two strings have the same characters.
    func isSame(_ one: Text, _ other: Text) -> Bool {
        guard !one.hasEscapes, !other.hasEscapes else { return text(of: one) == text(of: other) }
        guard one.range.count == other.range.count else { return false }
        return (0..<one.range.count).allSatisfy {
            bytes[one.range.lowerBound + $0] == bytes[other.range.lowerBound + $0]
        }
    }

    // MARK: Faults

    private func fault() -> TidemarkError { JSONFault.syntax(at: place, of: bytes) }

    /// Whether a text is UTF-8; it validates pieces, because validation makes a copy.
    private static func isUTF8(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            var piece = rest.prefix(1 << 16)
            if piece.count < rest.count {
                // At most the last three bytes belong to a character that continues in the next piece.
                let whole = piece.dropLast(3)
                piece = rest[..<(rest[whole.endIndex...].firstIndex { $0 & 0xC0 != 0x80 } ?? rest.endIndex)]
            }
            guard piece.allSatisfy({ $0 < 0x80 }) || String(validating: piece, as: UTF8.self) != nil else {
                return false
            }
            rest = rest[piece.endIndex...]
        }
        return true
    }
}

extension [UInt8] {
    /// Whether these bytes contain a non-empty sequence of bytes.
    package func contain(_ part: [UInt8]) -> Bool {
        guard let first = part.first, count >= part.count else { return false }
        return withUnsafeBufferPointer { bytes in
            (0...(bytes.count - part.count)).contains { start in
                bytes[start] == first && bytes[start...].starts(with: part)
            }
        }
    }
}
