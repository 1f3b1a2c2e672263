/// Reports stored properties of encodable types whose elements have no order.
///
/// A set has another order in each process, and so has a dictionary whose keys are not strings. Two processes
/// encode equal ones as different texts, which neither can compare or hash.
func unorderedEncodings(_ path: String, _ text: SwiftText) -> [Finding] {
    guard path.hasPrefix("Sources/") else { return [] }
    var depth = 0
    var bodies: [(depth: Int, isEncodable: Bool)] = []
    return (1...max(1, text.lineCount)).compactMap { number in
        let line = text.line(number, of: text.code)
        let isMember = bodies.last.map { $0.isEncodable && $0.depth == depth } ?? false
        let isType = line.contains(/\b(?:struct|class|enum|actor|extension) \w/)
        for character in line {
            if character == "{" {
                depth += 1
                if isType { bodies.append((depth, line.contains(/:.*\b(?:Codable|Encodable)\b/))) }
            } else if character == "}" {
                if bodies.last?.depth == depth { bodies.removeLast() }
                depth -= 1
            }
        }
        guard isMember, !isType, !line.contains("static "),
            let type = line.firstMatch(of: /\b(?:let|var) \w+: ([^={]+)(=|$)/)?.output.1,
            type.contains(/\bSet</) || type.contains(/\[(?!String:|Int:)[\w.]+:\s/)
        else { return nil }
        return Finding(path, number, "an encoded type stores values without an order: store a sorted array")
    }
}
