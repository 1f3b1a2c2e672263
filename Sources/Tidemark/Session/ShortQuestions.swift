import TidemarkCore

/// Whether a device that only asks tries with few words first, by what became of that so far.
///
/// A server, or a proxy before it, that does not know short questions is not asked one again. One
/// that mostly wants to be asked in full, for whatever reason, is spared more and more of them.
struct ShortQuestions: Hashable, Sendable {
    /// What became of one.
    enum Outcome: Hashable, Sendable {
        /// It was answered.
        case answered
        /// The server wants to be asked in full this time.
        case refused
        /// Nobody there knows what it means.
        case unknown

        /// What a refusal says about short questions; nil for an error that a whole request would
        /// meet as well.
        init?(refusal: TidemarkError) {
            switch refusal.code {
            // What is not Tidemark's may come from a proxy that takes nothing but POST.
            case .fullRequestRequired, .invalidResponse, .notAllowed: self = .refused
            case .unknownPath, .methodNotAllowed, .malformedRequest: self = .unknown
            default: return nil
            }
        }
    }

    /// The most syncs without one between two that were refused.
    static let pauseMax = 64

    private var refusals = 0
    private var pause = 0

    /// Whether the sync that begins now may ask one.
    mutating func begins() -> Bool {
        guard pause > 0 else { return true }
        if pause < Int.max { pause -= 1 }
        return false
    }

    /// Notes what became of one; nil: none was asked.
    mutating func ended(_ outcome: Outcome?) {
        switch outcome {
        case nil: return
        case .answered: refusals = 0
        case .refused:
            refusals += 1
            // Once is nothing: the next one is mostly answered.
            pause = refusals == 1 ? 0 : min(1 << min(refusals, 8), Self.pauseMax)
        case .unknown: pause = .max
        }
    }
}
