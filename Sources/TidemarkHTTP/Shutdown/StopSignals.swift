internal import Foundation
internal import UnixSignals

/// The signals on which a server stops in order.
enum StopSignals {
    /// SIGINT, SIGTERM, and SIGHUP, which comes when the terminal is closed.
    ///
    /// A process that was started to ignore SIGHUP, by `nohup` for instance, goes on ignoring it.
    static func trapped() -> [UnixSignal] {
        var action = sigaction()
        sigaction(SIGHUP, nil, &action)
        #if canImport(Darwin)
        let handler = action.__sigaction_u.__sa_handler
        #else
        let handler = action.__sigaction_handler.sa_handler
        #endif
        let ignored = unsafeBitCast(SIG_IGN, to: Int.self)
        let isIgnored = unsafeBitCast(handler, to: Int.self) == ignored
        return isIgnored ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
    }
}
