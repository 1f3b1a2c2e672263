internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

extension Request {
    /// The names and values of the query, in their order, without percent-encoding.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidFilter`` for a part that is no `name=value`.
    var queryItems: [ListQuery.Item] { get throws(TidemarkError) { try QueryItems.read(uri.query ?? "") } }
}
