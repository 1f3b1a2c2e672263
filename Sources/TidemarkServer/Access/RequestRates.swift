public import TidemarkEngine
internal import Synchronization
internal import TidemarkCore

/// The rates of requests at one server process, and their limits.
public final class RequestRates: Sendable {
    private let limiter: Mutex<RateLimiter>
    private let now: @Sendable () -> Int64
    private let random: @Sendable () -> Double
    /// The largest part by which a pause is made longer, so that refused devices do not return all at once.
    private static let jitterMax = 0.25

    /// Counts from now on.
    public convenience init(_ limits: RateLimits = .standard) {
        let start = ContinuousClock.now
        self.init(limits, now: { Int64((ContinuousClock.now - start) / .milliseconds(1)) }) { .random(in: 0..<1) }
    }

    /// Counts by milliseconds of a clock that does not go back, and by random numbers from 0 to 1.
    init(_ limits: RateLimits, now: @escaping @Sendable () -> Int64, random: @escaping @Sendable () -> Double) {
        limiter = Mutex(RateLimiter(limits))
        self.now = now
        self.random = random
    }

    /// Applies other limits from now on; the counts stay.
    public func follow(_ limits: RateLimits) { limiter.withLock { $0.limits = limits } }

    /// Takes the costs of a request; throws ``TidemarkCore/ErrorCode/rateLimited`` if one of them does not fit.
    func take(_ costs: [RateLimiter.Cost]) throws(TidemarkError) {
        let now = now()
        guard let wait = limiter.withLock({ $0.take(costs, now: now) }) else { return }
        throw refusal(wait)
    }

    /// Takes a cost that has already occurred; throws `rateLimited` if its sender then owes more than one burst.
    func spendWithinDebt(_ rule: RateLimits.Rule, of sender: String, amount: Int64) throws(TidemarkError) {
        let now = now()
        let cost = RateLimiter.Cost(rule, of: sender, amount: amount)
        if let wait = limiter.withLock({ $0.spendWithinDebt(cost, now: now) }) { throw refusal(wait) }
    }

    /// Takes a cost that has already occurred.
    func spend(_ cost: RateLimiter.Cost) {
        let now = now()
        limiter.withLock { $0.spend(cost, now: now) }
    }

    /// Refuses as ``TidemarkCore/ErrorCode/rateLimited`` if a cost does not fit; takes nothing.
    func require(_ cost: RateLimiter.Cost) throws(TidemarkError) {
        let now = now()
        let wait = limiter.withLock { $0.wait(for: cost, now: now) }
        if wait > 0 { throw refusal(wait) }
    }

    private func refusal(_ wait: Int64) -> TidemarkError {
        let seconds = (Double(wait) * (1 + random() * Self.jitterMax) / 1_000).rounded(.up)
        var error = TidemarkError(
            .rateLimited, "The server has had too many requests of this sender.",
            fix: "Try again after the seconds of Retry-After; the server's operator can raise the limits.")
        error.retryAfterSeconds = Int(max(1, seconds))
        return error
    }
}
