import Foundation

/// A value read from the JSON of the wire, for the few forms that SQLite's JSON functions do not read exactly:
/// doubles, tagged objects, and strings with escapes that they cut or mangle.
enum DecodedValue: Equatable {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])

    /// Reads one JSON value.
    ///
    /// - Throws: ``InvalidValue`` with the reason, in words that fit after a column's name.
    init(json: String) throws(InvalidValue) {
        switch json.first {
        case "{": self = try Self.tagged(json)
        case "\"": self = .text(try Self.string(json))
        case "n": self = .null
        case "t": self = .integer(1)
        case "f": self = .integer(0)
        case "[": throw InvalidValue(reason: "is an array; a column holds a single value")
        default: self = try Self.number(json)
        }
    }

    /// The value in its one canonical form.
    var canonicalJSON: [UInt8] {
        var output: [UInt8] = []
        switch self {
        case .null: output += "null".utf8
        case .integer(let value): output += String(value).utf8
        case .real(let value): CanonicalJSON.append(value, to: &output)
        case .text(let bytes):
            bytes.withUnsafeBufferPointer { CanonicalJSON.append(text: $0, to: &output) }
        case .blob(let bytes):
            output += #"{"$blob":""#.utf8
            output += Data(bytes).base64EncodedData()
            output += #""}"#.utf8
        }
        return output
    }

    private static func number(_ json: String) throws(InvalidValue) -> Self {
        if json.allSatisfy({ $0.isNumber || $0 == "-" }) {
            guard let value = Int64(json) else {
                throw InvalidValue(reason: "is an integer beyond 64 bits")
            }
            return .integer(value)
        }
        guard let value = Double(json), value.isFinite else {
            throw InvalidValue(reason: "is a number beyond the range of a double")
        }
        return .real(value)
    }

    private static func string(_ json: String) throws(InvalidValue) -> [UInt8] {
        let parsed = try? JSONSerialization.jsonObject(
            with: Data(json.utf8), options: .fragmentsAllowed)
        // Foundation tells only that it failed; the cause is an escape that is no character.
        guard let text = parsed as? String else {
            throw InvalidValue(reason: "is a string with an escape that is no character")
        }
        return Array(text.utf8)
    }

    private static func tagged(_ json: String) throws(InvalidValue) -> Self {
        let parsed = try? JSONSerialization.jsonObject(with: Data(json.utf8))
        // Any failure to parse is the same to the sender: the object is none of the three known forms.
        let object = parsed as? [String: String] ?? [:]
        guard object.count == 1, let (tag, content) = object.first else {
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

    private static let unknownTag =
        #"is an object, but neither {"$blob":"<base64>"}, {"$text":"<base64>"} nor {"$real":"Infinity"}"#
}

/// Why a JSON value fits no column.
struct InvalidValue: Error, Equatable {
    /// Words that fit after a column's name.
    let reason: String
}
