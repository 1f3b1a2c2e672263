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
    /// Reads a text of the program itself, whose strings have canonical escapes.
    init(trusted json: [UInt8]) {
        var place = 0
        self = Self.read(json, &place)
    }

    private static func read(_ json: [UInt8], _ place: inout Int) -> JSONTree {
        switch next(json, &place) {
        case UInt8(ascii: "{"): return .object(list(json, &place, of: { (string(json, &$0), read(json, &$0)) }))
        case UInt8(ascii: "["): return .array(list(json, &place, of: { read(json, &$0) }))
        case UInt8(ascii: "\""): return .string(string(json, &place))
        default:
            let start = place
            while !" \n,]}".utf8.contains(json[place]) { place += 1 }
            let word = String(decoding: json[start..<place], as: UTF8.self)
            return Int64(word).map { .integer($0) } ?? .boolean(word == "true")
        }
    }

    /// Reads elements up to the closing bracket.
    private static func list<Element>(_ json: [UInt8], _ place: inout Int, of element: (inout Int) -> Element)
        -> [Element]
    {
        var elements: [Element] = []
        place += 1
        while !"]}".utf8.contains(next(json, &place)) { elements.append(element(&place)) }
        place += 1
        return elements
    }

    private static func string(_ json: [UInt8], _ place: inout Int) -> String {
        _ = next(json, &place)
        let start = place
        place += 1
        while json[place] != UInt8(ascii: "\"") { place += json[place] == UInt8(ascii: "\\") ? 2 : 1 }
        place += 1
        return JSONText.unquote(String(decoding: json[start..<place], as: UTF8.self))
    }

    /// The next byte that is neither white space nor a separator.
    private static func next(_ json: [UInt8], _ place: inout Int) -> UInt8 {
        while " \n,:".utf8.contains(json[place]) { place += 1 }
        return json[place]
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
