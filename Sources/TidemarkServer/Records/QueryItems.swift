internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

extension Request {
    /// Returns the value of the first parameter of a name; nil without one, or if it is no text.
    func query(_ name: String) -> String? {
        for part in (uri.query ?? "").split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if sides.count == 2, QueryItems.text(sides[0]) == name { return QueryItems.text(sides[1]) }
        }
        return nil
    }

    /// The device that the query names as `?device=NAME`; nil if the query has anything else.
    var device: String? {
        guard uri.query?.contains("&") == false, let device = query("device"), !device.isEmpty else { return nil }
        return device
    }

    /// The names and values of the query, in order, decoded as forms are; throws `invalidFilter` for any other part.
    var queryItems: [ListQuery.Item] { get throws(TidemarkError) { try QueryItems.read(uri.query ?? "") } }
}
