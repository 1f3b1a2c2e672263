import TidemarkCore

/// Decides whether a settled device sends a conditional GET first, by the outcomes so far.
///
/// After one answer shows that the server or a proxy does not support it, the device never sends
/// another. After each refusal it skips more syncs before the next one.
struct ConditionalGetPolicy: Hashable, Sendable {
    enum Outcome: Hashable, Sendable {
        /// The server answered it.
        case answered
        /// The server wants the whole request this time.
        case refused
        /// The server or a proxy does not support it.
        case unknown

        /// Classifies an error; nil if a whole request would meet the same error.
        init?(refusal: TidemarkError) {
            switch refusal.code {
            // An answer that is not Tidemark's may come from a proxy that accepts only POST.
            case .fullRequestRequired, .invalidResponse, .notAllowed: self = .refused
            case .unknownPath, .methodNotAllowed, .malformedRequest: self = .unknown
            default: return nil
            }
        }
    }

    /// The most syncs without a conditional GET between two refused ones.
    static let pauseMax = 64
    private static let exponentMax = 8
    private var refusals = 0
    private var pause = 0

    /// Begins a sync and returns whether it may send a conditional GET.
    mutating func beginSync() -> Bool {
        guard pause > 0 else { return true }
        if pause < Int.max { pause -= 1 }
        return false
    }

    /// Records the outcome of a sync's conditional GET; nil if it sent none.
    mutating func record(_ outcome: Outcome?) {
        switch outcome {
        case nil: return
        case .answered: refusals = 0
        case .refused:
            refusals += 1
            // A single refusal is no pattern: the server mostly answers the next one.
            pause = refusals == 1 ? 0 : min(1 << min(refusals, Self.exponentMax), Self.pauseMax)
        case .unknown: pause = .max
        }
    }
}
