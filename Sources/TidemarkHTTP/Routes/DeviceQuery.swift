internal import Foundation
internal import Hummingbird

/// `?device=NAME`: how a request without a body says whose it is.
enum DeviceQuery {
    private static let name = "device="

    /// The device that a query names, which has to be all that is in it.
    static func device(in request: Request) -> String? {
        guard let query = request.uri.query, query.hasPrefix(name), !query.contains("&"),
            let device = query.dropFirst(name.count).removingPercentEncoding, !device.isEmpty, !device.contains("\0")
        else { return nil }
        return device
    }
}
