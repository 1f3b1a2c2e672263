internal import HTTPTypes
internal import TidemarkCore

/// A request refused before its body was read to the end, with what the answer's headers say about it.
///
/// The connection of such a request is closed after the answer if more of the body may be on its way.
struct Refusal: Error {
    /// The error that the client is told.
    let error: TidemarkError
    /// The headers that go with it.
    let headers: HTTPFields

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
