internal import Synchronization
internal import TidemarkCore

/// Values that inner handlers pass to the outer middleware.
final class RequestNotes: Sendable {
    private let error = Mutex<ErrorCode?>(nil)

    /// The error code of the answer.
    var code: ErrorCode? {
        get { error.withLock { $0 } }
        set { error.withLock { $0 = newValue } }
    }
}
