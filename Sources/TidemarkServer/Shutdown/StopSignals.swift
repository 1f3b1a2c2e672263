internal import Foundation
internal import UnixSignals

/// The signals on which a server shuts down gracefully.
enum StopSignals {
    /// Returns SIGINT, SIGTERM, and SIGHUP, which the system sends when the terminal closes.
    ///
    /// A server for which SIGHUP has another meaning does not stop on it.
    /// A process that ignores SIGHUP from its start, for instance by `nohup`, continues to ignore it.
    static func signalsToTrap(stopsOnHangUp: Bool = true) -> [UnixSignal] {
        guard stopsOnHangUp else { return [.sigint, .sigterm] }
        var action = sigaction()
        sigaction(SIGHUP, nil, &action)
        #if canImport(Darwin)
        let handler = action.__sigaction_u.__sa_handler
        #else
        let handler = action.__sigaction_handler.sa_handler
        #endif
        let ignoreHandler = unsafeBitCast(SIG_IGN, to: Int.self)
        let isIgnored = unsafeBitCast(handler, to: Int.self) == ignoreHandler
        return isIgnored ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
    }
}
