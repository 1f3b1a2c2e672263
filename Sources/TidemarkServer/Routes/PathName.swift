internal import Foundation
internal import Hummingbird
internal import TidemarkCore

extension ServerRequestContext {
    /// Returns the name of a user, an invitation or a device in the request's path.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/malformedRequest`` for a name that is no percent-encoded UTF-8.
    func name(_ parameter: String) throws(TidemarkError) -> String {
        guard let text = parameters.get(parameter)?.removingPercentEncoding, !text.utf8.contains(0) else {
            throw TidemarkError(
                .malformedRequest,
                "The name in the path is not valid percent-encoded UTF-8.",
                fix: "Percent-encode the name."
            )
        }
        return text
    }
}
