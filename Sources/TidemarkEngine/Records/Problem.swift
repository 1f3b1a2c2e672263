package import TidemarkCore

/// The refusal of a request for rows, with the facts by which a client decides again (RFC 9457).
package struct Problem: Error, Hashable, Sendable {
    package var error: TidemarkError
    /// The reasons of a refused change set, JSON each.
    package var reasons: [String]
    /// The record as it is now, JSON.
    package var current: String?
    /// The position of the entry in its batch, from 0.
    package var index: Int?

    /// Creates a problem.
    package init(_ error: TidemarkError, reasons: [String] = [], current: String? = nil, index: Int? = nil) {
        self.error = error
        self.reasons = reasons
        self.current = current
        self.index = index
    }

    /// Creates the problem of any error that a client can correct; nil for another one.
    package init?(refusal error: any Error, index: Int?) {
        switch error {
        case var problem as Problem:
            problem.index = problem.index ?? index
            self = problem
        case let error as TidemarkError: self.init(error, index: index)
        default: return nil
        }
    }

    package func json(status: Int) -> String {
        var members = [
            ("type", JSONText.quote("urn:tidemark:error:\(error.code.rawValue)")),
            ("title", JSONText.quote(error.message)), ("detail", JSONText.quote(error.fix)), ("status", "\(status)"),
            ("code", JSONText.quote(error.code.rawValue)), ("recovery", JSONText.quote(error.recovery.rawValue)),
        ]
        let place = [("table", error.place.table), ("key", error.place.key), ("column", error.place.column)]
            .compactMap { name, value in value.map { (name, JSONText.quote($0)) } }
        if !place.isEmpty { members.append(("place", JSONText.object(place))) }
        if !reasons.isEmpty { members.append(("reasons", JSONText.array(reasons))) }
        if let current { members.append(("current", current)) }
        if let index { members.append(("index", "\(index)")) }
        return JSONText.object(members)
    }
}
