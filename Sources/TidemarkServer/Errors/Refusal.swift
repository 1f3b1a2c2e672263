internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore

/// The refusal of a request by the HTTP layer.
struct Refusal: Error {
    let error: TidemarkError
    let headers: HTTPFields
    /// Whether the request's body may continue, so that the server must close the connection.
    var leavesBodyUnread = false

    init(_ code: ErrorCode, _ message: String, fix: String, headers: HTTPFields = [:]) {
        error = TidemarkError(code, message, fix: fix)
        self.headers = headers
    }

    /// Makes the refusal of a body while it arrives; the rest stays unread.
    static func ofRest(_ error: TidemarkError) -> Refusal {
        var refusal = Refusal(error)
        refusal.leavesBodyUnread = true
        return refusal
    }

    init(_ error: TidemarkError) {
        self.error = error
        headers = error.code == .signInNeeded ? [.wwwAuthenticate: "Bearer"] : [:]
    }

    /// Drops the body of a request that the server has not begun to read, and returns the refusal with the outcome.
    func droppingBody(of request: Request) async throws -> Refusal {
        var refusal = self
        refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
        return refusal
    }
}

/// The client disconnected before the answer.
struct ClientGone: Error { let cause: any Error }
