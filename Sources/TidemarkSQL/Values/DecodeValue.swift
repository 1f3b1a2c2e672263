import Foundation
package import GRDB

/// A value decoded from the wire's JSON.
///
/// It serves the forms that SQLite's JSON functions do not read exactly: doubles, tagged objects, and
/// strings with certain escapes.
enum DecodedValue: Equatable {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])

    /// Decodes a tagged blob or text without escapes and white space; nil for any other JSON.
    ///
    /// This is a fast path for Tidemark's own JSON; ``init(json:)`` decodes all forms.
    init?(tagged text: UnsafeBufferPointer<UInt8>) {
        let start = text.prefix(Self.tagLength)
        let end = text.suffix(2)
        guard text.count >= Self.tagLength + 2, end.elementsEqual(#""}"#.utf8) else { return nil }
        let content = text[Self.tagLength..<(text.count - 2)]
        guard start.elementsEqual(#"{"$blob":""#.utf8) || start.elementsEqual(#"{"$text":""#.utf8),
            let bytes = Base64.decode(UnsafeBufferPointer(rebasing: content))
        else { return nil }
        self = start.dropFirst(3).first == UInt8(ascii: "b") ? .blob(bytes) : .text(bytes)
    }

    /// The length of `{"$blob":"`, and of `{"$text":"`.
    static let tagLength = 10

    /// Decodes one JSON value.
    ///
    /// - Throws: ``InvalidValue``.
    init(json: String) throws(InvalidValue) {
        switch json.utf8.first.map({ Character(Unicode.Scalar($0)) }) {
        case "{": self = try Self.decodeTagged(json)
        case "\"": self = .text(try Self.decodeString(json))
        case "n": self = .null
        case "t": self = .integer(1)
        case "f": self = .integer(0)
        case "[": throw InvalidValue(reason: "is an array; a column holds a single value")
        default: self = try Self.decodeNumber(json)
        }
    }

    /// The canonical JSON of the value.
    var canonicalJSON: [UInt8] {
        var output: [UInt8] = []
        switch self {
        case .null: output += "null".utf8
        case .integer(let value): output += String(value).utf8
        case .real(let value): CanonicalJSON.append(value, to: &output)
        case .text(let bytes): bytes.withUnsafeBufferPointer { CanonicalJSON.append(text: $0, to: &output) }
        case .blob(let bytes):
            output += #"{"$blob":""#.utf8
            bytes.withUnsafeBufferPointer { Base64.append($0, to: &output) }
            output += #""}"#.utf8
        }
        return output
    }

    /// The value as GRDB reads it from a row: text to its first NUL, with replacement characters for other than UTF-8.
    var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let bytes): String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self).databaseValue
        case .blob(let bytes): Data(bytes).databaseValue
        }
    }

    /// The tagged form of text, which is unambiguous; the canonical JSON of other values.
    var taggedText: [UInt8] {
        guard case .text(let bytes) = self else { return canonicalJSON }
        return Array(#"{"$text":""#.utf8) + Array(Data(bytes).base64EncodedData()) + Array(#""}"#.utf8)
    }

    private static func decodeNumber(_ json: String) throws(InvalidValue) -> Self {
        if json.allSatisfy({ $0.isNumber || $0 == "-" }) {
            guard let value = Int64(json) else { throw InvalidValue(reason: "is an integer beyond 64 bits") }
            return .integer(value)
        }
        guard let value = Double(json), value.isFinite else {
            throw InvalidValue(reason: "is a number beyond the range of a double")
        }
        return .real(value)
    }

    private static func decodeString(_ json: String) throws(InvalidValue) -> [UInt8] {
        var output: [UInt8] = []
        var rest = Array(json.utf8.dropFirst().dropLast())[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let escape = rest.popFirst() else {
                output.append(byte)
                continue
            }
            switch escape {
            case UInt8(ascii: "b"): output.append(0x08)
            case UInt8(ascii: "t"): output.append(0x09)
            case UInt8(ascii: "n"): output.append(0x0A)
            case UInt8(ascii: "f"): output.append(0x0C)
            case UInt8(ascii: "r"): output.append(0x0D)
            case UInt8(ascii: "u"): output += String(try decodeCharacter(&rest)).utf8
            default: output.append(escape)
            }
        }
        return output
    }

    /// Decodes the digits after `\u`, and the second half of a surrogate pair.
    private static func decodeCharacter(_ rest: inout ArraySlice<UInt8>) throws(InvalidValue) -> Character {
        var value = codeUnit(&rest) ?? 0xD800
        if 0xD800..<0xDC00 ~= value, rest.starts(with: #"\u"#.utf8) {
            rest.removeFirst(2)
            let low = codeUnit(&rest) ?? 0
            value = 0xDC00..<0xE000 ~= low ? 0x10000 + (value - 0xD800) << 10 + low - 0xDC00 : value
        }
        guard let scalar = Unicode.Scalar(value) else {
            throw InvalidValue(reason: "is a string with an escape that is not a character")
        }
        return Character(scalar)
    }

    private static func codeUnit(_ rest: inout ArraySlice<UInt8>) -> UInt32? {
        defer { rest = rest.dropFirst(4) }
        return UInt32(String(decoding: rest.prefix(4), as: UTF8.self), radix: 16)
    }

    private static func decodeTagged(_ json: String) throws(InvalidValue) -> Self {
        guard !json.hasPrefix(Delta.prefix) else {
            throw InvalidValue(reason: "is a delta; only a column with the policy add has one")
        }
        let object = parse(json) as? [String: String] ?? [:]
        guard object.count == 1, let (tag, content) = object.first, json.ranges(of: "\"\(tag)\"").count == 1 else {
            throw InvalidValue(reason: unknownTag)
        }
        switch (tag, Data(base64Encoded: content), content) {
        case ("$blob", let data?, _): return .blob(Array(data))
        case ("$text", let data?, _): return .text(Array(data))
        case ("$real", _, "Infinity"): return .real(.infinity)
        case ("$real", _, "-Infinity"): return .real(-.infinity)
        default: throw InvalidValue(reason: unknownTag)
        }
    }

    /// Parses JSON with Foundation; nil if it is invalid.
    private static func parse(_ json: String) -> Any? {
        do { return try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed) } catch {
            return nil
        }
    }

    private static let unknownTag =
        #"is an object, but neither {"$blob":"<base64>"}, {"$text":"<base64>"} nor {"$real":"Infinity"}"#
}

/// The reason why no column can hold a JSON value.
package struct InvalidValue: Error, Equatable {
    /// The reason, as words that follow a column's name.
    package let reason: String
}

extension DatabaseValue {
    /// Decodes one JSON value for a database that keeps text without NUL and in UTF-8 only.
    ///
    /// - Throws: ``InvalidValue``.
    package static func decoding(_ json: String) throws(InvalidValue) -> DatabaseValue {
        let value = try DecodedValue(json: json)
        if case .text(let bytes) = value, bytes.contains(0) || String(validating: bytes, as: UTF8.self) == nil {
            throw InvalidValue(reason: "is text with NUL or not in UTF-8, which PostgreSQL does not keep")
        }
        return value.databaseValue
    }
}
