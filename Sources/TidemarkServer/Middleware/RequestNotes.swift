internal import Synchronization
internal import TidemarkCore

/// Values that handlers pass to one another along a request.
final class RequestNotes: Sendable {
    private struct Values {
        var code: ErrorCode?
        var forwardedClient: String?
    }

    private let values = Mutex(Values())

    /// The error code of the answer.
    var code: ErrorCode? {
        get { values.withLock { $0.code } }
        set { values.withLock { $0.code = newValue } }
    }

    /// The address of the client, as a proxy has passed it on; nil without proxies.
    var forwardedClient: String? {
        get { values.withLock { $0.forwardedClient } }
        set { values.withLock { $0.forwardedClient = newValue } }
    }
}
