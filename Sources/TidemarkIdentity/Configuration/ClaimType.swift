internal import TidemarkEngine

/// The type of a claim that the configuration takes from a provider's tokens.
package enum ClaimType: String, Hashable, Sendable, CaseIterable {
    case text
    case texts
    case integer
    case integers
    case boolean

    /// Returns the claim for a value; nil for a value of another type.
    func claim(_ value: JSONValue) -> Caller.User.Claim? {
        switch (self, value) {
        case (.text, .text(let text)): return .text(text)
        case (.texts, .list): return value.texts.map { .texts($0) }
        case (.integer, .integer(let integer)): return .integer(integer)
        case (.integers, .list(let values)):
            let integers = values.compactMap { value -> Int64? in
                guard case .integer(let integer) = value else { return nil }
                return integer
            }
            return integers.count == values.count ? .integers(integers) : nil
        case (.boolean, .boolean(let boolean)): return .boolean(boolean)
        default: return nil
        }
    }
}
