internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore

/// `Tidemark-Device-Name`: the name of the sending device, for the server's operators.
enum StatedName {
    private static let field = HTTPField.Name.customName("Tidemark-Device-Name")

    /// Returns the name in a request, decoded.
    ///
    /// An unusable name counts as none: it is for people only, and must not make a device's request fail.
    static func name(in request: Request) -> String? {
        guard let name = request.headers[field]?.removingPercentEncoding, DeviceName.isUsable(name) else { return nil }
        return name
    }
}
