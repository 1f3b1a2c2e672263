internal import HTTPTypes
internal import Hummingbird

/// The headers that let pages of an allowed origin send requests and read answers, without credentials or cookies.
struct CrossOrigin {
    let origin: String
    static let methods = "GET, HEAD, POST, PUT, PATCH, DELETE"
    static let requestHeaders = """
        If-Match, If-None-Match, Idempotency-Key, Prefer, Authorization, Content-Type, Last-Event-ID, Accept
        """
    /// The headers of an answer that a page may read, besides those that every page may.
    static let answerHeaders = "ETag, Link, Location, Retry-After, Preference-Applied"
    /// How long a browser may remember the answer to a preflight, in seconds.
    static let preflightSeconds = 86_400

    /// Whether a browser asks for permission, before it sends the request of a page.
    static func isPreflight(_ request: Request) -> Bool {
        request.method == .options && request.headers[.accessControlRequestMethod] != nil
    }

    /// The answer to a preflight, on every path: whether the path is there, the request itself learns.
    var permission: Response {
        var response = Response(
            status: .noContent,
            headers: [
                .accessControlAllowMethods: Self.methods, .accessControlAllowHeaders: Self.requestHeaders,
                .accessControlMaxAge: "\(Self.preflightSeconds)", .cacheControl: "no-store",
            ])
        response.headers[.accessControlAllowOrigin] = origin
        Self.vary(&response)
        return response
    }

    /// Lets the page read an answer.
    func permit(_ response: inout Response) {
        response.headers[.accessControlAllowOrigin] = origin
        response.headers[.accessControlExposeHeaders] = Self.answerHeaders
    }

    /// Tells caches that the answer depends on the origin.
    static func vary(_ response: inout Response) {
        let others = response.headers[.vary].map { "\($0), " } ?? ""
        response.headers[.vary] = "\(others)Origin"
    }
}
