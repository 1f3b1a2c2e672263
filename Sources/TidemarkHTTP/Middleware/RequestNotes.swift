internal import Synchronization
internal import TidemarkCore

/// What the inside of a request's way tells the outside.
final class RequestNotes: Sendable {
    private let error = Mutex<ErrorCode?>(nil)

    /// The error that the request was answered with.
    var code: ErrorCode? {
        get { error.withLock { $0 } }
        set { error.withLock { $0 = newValue } }
    }
}
