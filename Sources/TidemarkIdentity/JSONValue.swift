internal import Foundation

/// A value of JSON, as a configuration or a token holds it.
enum JSONValue: Hashable, Sendable {
    case null
    case boolean(Bool)
    case integer(Int64)
    case number(Double)
    case text(String)
    case list([JSONValue])
    case object([String: JSONValue])

    /// The most values within one another, so that a stranger's token cannot exhaust the stack.
    private static let depthMax = 32

    /// Parses JSON; nil if it is not valid, or nested too deeply.
    init?(_ json: [UInt8]) {
        guard Self.depth(of: json) <= Self.depthMax else { return nil }
        // The callers report that there is no JSON; they have no use for the parser's reason.
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(json)) else { return nil }
        self = value
    }

    /// The greatest number of brackets that are open at a time, outside of texts.
    private static func depth(of json: [UInt8]) -> Int {
        var depth = 0
        var deepest = 0
        var isInText = false
        var isEscaped = false
        for byte in json {
            if isInText {
                isInText = isEscaped || byte != UInt8(ascii: "\"")
                isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInText = true
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
            deepest = max(deepest, depth)
        }
        return deepest
    }

    // Nil for values of another kind.
    var members: [String: JSONValue]? { if case .object(let members) = self { members } else { nil } }
    var text: String? { if case .text(let text) = self { text } else { nil } }
    /// The texts of a list of texts.
    var texts: [String]? {
        guard case .list(let values) = self else { return nil }
        let texts = values.compactMap(\.text)
        return texts.count == values.count ? texts : nil
    }
}

extension JSONValue: Decodable {
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // Each failed attempt only says that the value is of another kind.
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {  // another kind
            self = .boolean(value)
        } else if let value = try? container.decode(Int64.self) {  // another kind
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {  // another kind
            self = .number(value)
        } else if let value = try? container.decode(String.self) {  // another kind
            self = .text(value)
        } else if let value = try? container.decode([JSONValue].self) {  // another kind
            self = .list(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }
}
