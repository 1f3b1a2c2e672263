import TidemarkCore

/// A JSON document in memory, whose members keep their order.
indirect enum JSONTree: Sendable {
    case object([Member])
    case array([JSONTree])
    case string(String)
    case integer(Int64)
    case boolean(Bool)

    typealias Member = (name: String, value: JSONTree)

    static func strings(_ texts: [String]) -> JSONTree { .array(texts.map { .string($0) }) }

    /// The members of an object; none of another value.
    var members: [Member] {
        guard case .object(let members) = self else { return [] }
        return members
    }

    /// What stands in a text in place of a hole: a string's characters, or the JSON of another value.
    var words: String {
        guard case .string(let text) = self else { return text }
        return text
    }

    /// The JSON text, without white space.
    var text: String {
        switch self {
        case .string(let text): JSONText.quote(text)
        case .integer(let number): String(number)
        case .boolean(let isTrue): isTrue ? "true" : "false"
        case .array(let elements): JSONText.array(elements.map(\.text))
        case .object(let members): JSONText.object(members.map { ($0, $1.text) })
        }
    }
}

extension JSONTree {
    /// Returns the tree with its holes filled: `{{name}}` as a value, or within a text.
    ///
    /// The elements of an array take the place of a hole among elements, and the members of an object that of a hole
    /// among names, whatever value the hole has.
    func filled(_ holes: [String: JSONTree]) -> JSONTree {
        switch self {
        case .string(let text):
            return Self.value(of: text, holes) ?? .string(Self.fill(text, holes))
        case .array(let elements):
            return .array(
                elements.flatMap { element in
                    if case .string(let text) = element, case .array(let own)? = Self.value(of: text, holes) {
                        return own
                    }
                    return [element.filled(holes)]
                }
            )
        case .object(let members):
            return .object(
                members.flatMap { member in
                    if case .object(let own)? = Self.value(of: member.name, holes) { return own }
                    return [(Self.fill(member.name, holes), member.value.filled(holes))]
                }
            )
        case .integer, .boolean: return self
        }
    }

    private static func value(of text: String, _ holes: [String: JSONTree]) -> JSONTree? {
        guard text.hasPrefix("{{"), text.hasSuffix("}}") else { return nil }
        return holes[String(text.dropFirst(2).dropLast(2))]
    }

    private static func fill(_ text: String, _ holes: [String: JSONTree]) -> String {
        guard text.utf8.contains(UInt8(ascii: "{")) else { return text }
        var parts = text.split(separator: "{{", omittingEmptySubsequences: false)
        var output = String(parts.removeFirst())
        for part in parts {
            let halves = part.split(separator: "}}", maxSplits: 1, omittingEmptySubsequences: false)
            output += holes[String(halves[0])]?.words ?? "{{\(halves[0])}}"
            output += halves.dropFirst().joined()
        }
        return output
    }
}

extension JSONTree {
    /// Reads a text of the program itself, which has no fault.
    init(trusted json: [UInt8]) {
        self = json.withUnsafeBufferPointer { bytes in
            do throws(TidemarkError) {
                var reader = try JSONReader(bytes, depthMax: 64)
                return try Self.read(&reader)
            } catch { preconditionFailure("a fault in the program's own JSON: \(error)") }
        }
    }

    private static func read(_ reader: inout JSONReader) throws(TidemarkError) -> JSONTree {
        switch try reader.kind() {
        case .object:
            var members: [Member] = []
            try reader.object { (reader, name) throws(TidemarkError) in
                members.append((reader.text(of: name), try read(&reader)))
            }
            return .object(members)
        case .array:
            var elements: [JSONTree] = []
            try reader.array { (reader) throws(TidemarkError) in elements.append(try read(&reader)) }
            return .array(elements)
        default:
            let cell = try reader.cell()
            if let text = reader.plainText(of: cell) { return .string(text) }
            return reader.integer(of: cell).map { .integer($0) } ?? .boolean(cell.kind == .true)
        }
    }
}

extension JSONTree: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral, ExpressibleByStringInterpolation,
    ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
    init(dictionaryLiteral members: (String, JSONTree)...) { self = .object(members.map { ($0, $1) }) }
    init(arrayLiteral elements: JSONTree...) { self = .array(elements) }
    init(stringLiteral text: String) { self = .string(text) }
    init(integerLiteral number: Int64) { self = .integer(number) }
    init(booleanLiteral isTrue: Bool) { self = .boolean(isTrue) }
}
