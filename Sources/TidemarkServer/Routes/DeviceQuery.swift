internal import Hummingbird
internal import TidemarkEngine

/// `?device=NAME`: the device of a request without a body.
enum DeviceQuery {
    private static let name = "device="

    /// Returns the device that a query names; nil if the query has anything else.
    static func device(in request: Request) -> String? {
        guard let query = request.uri.query, query.hasPrefix(name), !query.contains("&"),
            let device = QueryItems.text(query.dropFirst(name.count)), !device.isEmpty
        else { return nil }
        return device
    }
}
