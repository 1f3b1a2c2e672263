internal import Foundation
internal import Hummingbird

/// `?device=NAME`: the device of a request without a body.
enum DeviceQuery {
    private static let name = "device="

    /// Returns the device that a query names; nil if the query has anything else.
    static func device(in request: Request) -> String? {
        guard let query = request.uri.query, query.hasPrefix(name), !query.contains("&"),
            let device = query.dropFirst(name.count).removingPercentEncoding, !device.isEmpty, !device.contains("\0")
        else { return nil }
        return device
    }
}
