/// Reads a configuration strictly, and collects all problems with their places.
struct ConfigurationReader {
    /// The problems so far, each with its place: `identity.providers[0].issuer: ...`.
    private(set) var problems: [String] = []

    mutating func report(_ place: String, _ problem: String) { problems.append("\(place): \(problem)") }

    /// Returns the members of an object; other names than those of `names`, if given, are problems.
    mutating func members(_ value: JSONValue, at place: String, names: [String]? = nil) -> [String: JSONValue] {
        guard let members = value.members else {
            report(place, "write an object, {...}")
            return [:]
        }
        guard let names else { return members }
        for name in members.keys.sorted() where !names.contains(name) {
            report(
                Self.join(place, name),
                "there is no such setting; there \(names.count == 1 ? "is" : "are") \(names.joined(separator: ", "))")
        }
        return members.filter { names.contains($0.key) }
    }

    /// Returns a text that is not empty; nil if it is missing, which is a problem if it is required.
    mutating func text(_ name: String, of members: [String: JSONValue], at place: String, isRequired: Bool = false)
        -> String?
    {
        guard let value = members[name] else {
            if isRequired { report(Self.join(place, name), "it is missing") }
            return nil
        }
        guard let text = value.text, !text.isEmpty else {
            report(Self.join(place, name), "write a text that is not empty")
            return nil
        }
        return text
    }

    /// Returns a boolean; false if it is missing.
    mutating func boolean(_ name: String, of members: [String: JSONValue], at place: String) -> Bool {
        switch members[name] {
        case nil: return false
        case .boolean(let value): return value
        default:
            report(Self.join(place, name), "write true or false")
            return false
        }
    }

    /// Returns a positive integer up to a bound; nil if it is missing.
    mutating func integer(_ name: String, of members: [String: JSONValue], at place: String, upTo maximum: Int64)
        -> Int64?
    {
        guard let value = members[name] else { return nil }
        guard case .integer(let integer) = value, (1...maximum).contains(integer) else {
            report(Self.join(place, name), "write an integer from 1 to \(maximum)")
            return nil
        }
        return integer
    }

    /// Returns one of the cases of a type, by its name; nil if it is missing.
    mutating func oneOf<Case: RawRepresentable<String>>(
        _ cases: [Case], _ name: String, of members: [String: JSONValue], at place: String
    ) -> Case? {
        guard let value = members[name] else { return nil }
        guard let text = value.text, let result = cases.first(where: { $0.rawValue == text }) else {
            report(Self.join(place, name), "write \(Self.list(cases))")
            return nil
        }
        return result
    }

    /// The names of cases, for a message: `"RS256", "ES256" or "EdDSA"`.
    static func list(_ cases: [some RawRepresentable<String>]) -> String {
        let names = cases.map { "\"\($0.rawValue)\"" }
        guard let last = names.last, names.count > 1 else { return names.first ?? "" }
        return "\(names.dropLast().joined(separator: ", ")) or \(last)"
    }

    static func join(_ place: String, _ name: String) -> String { place.isEmpty ? name : "\(place).\(name)" }
}
