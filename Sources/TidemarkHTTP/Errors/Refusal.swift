internal import HTTPTypes
internal import TidemarkCore

/// A request that HTTP itself refuses, with what the answer's headers say about it.
struct Refusal: Error {
    /// The error that the client is told.
    let error: TidemarkError
    /// The headers that go with it.
    let headers: HTTPFields
    /// Whether more of the request's body may still come, so that the connection has to be closed.
    var leavesBodyUnread = false

    init(_ code: ErrorCode, _ message: String, fix: String, headers: HTTPFields = [:]) {
        error = TidemarkError(code, message, fix: fix)
        self.headers = headers
    }
}

/// The client went away while it sent its request; nobody is left to answer.
struct ClientGone: Error {
    /// What the connection said.
    let cause: any Error
}
