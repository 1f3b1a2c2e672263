import TidemarkCore

/// A JSON document in memory, whose members keep their order.
indirect enum JSONTree: Hashable, Sendable {
    case object([Member])
    case array([JSONTree])
    case string(String)
    case integer(Int64)
    case boolean(Bool)

    /// A name and a value.
    struct Member: Hashable, Sendable {
        let name: String
        let value: JSONTree
    }

    /// Makes an object of members that a loop collects.
    static func members(_ members: [(String, JSONTree)]) -> JSONTree {
        .object(members.map { Member(name: $0.0, value: $0.1) })
    }

    /// Makes an array of texts.
    static func strings(_ texts: [String]) -> JSONTree { .array(texts.map { .string($0) }) }

    /// The object with the members of another one behind its own.
    func with(_ other: JSONTree) -> JSONTree {
        guard case .object(let own) = self, case .object(let added) = other else { return self }
        return .object(own + added)
    }

    /// The JSON text, without white space.
    var text: String {
        var output = ""
        write(to: &output)
        return output
    }

    private func write(to output: inout String) {
        switch self {
        case .string(let text): output += JSONText.quote(text)
        case .integer(let number): output += String(number)
        case .boolean(let isTrue): output += isTrue ? "true" : "false"
        case .array(let elements):
            output += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { output += "," }
                element.write(to: &output)
            }
            output += "]"
        case .object(let members):
            output += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { output += "," }
                output += JSONText.quote(member.name) + ":"
                member.value.write(to: &output)
            }
            output += "}"
        }
    }
}

extension JSONTree: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral, ExpressibleByStringInterpolation,
    ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
    init(dictionaryLiteral members: (String, JSONTree)...) { self = .members(members) }

    init(arrayLiteral elements: JSONTree...) { self = .array(elements) }

    init(stringLiteral text: String) { self = .string(text) }

    init(integerLiteral number: Int64) { self = .integer(number) }

    init(booleanLiteral isTrue: Bool) { self = .boolean(isTrue) }
}
