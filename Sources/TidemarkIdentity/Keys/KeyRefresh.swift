/// Decides when the server fetches a provider's keys, and how long it uses them; times in milliseconds since 1970.
struct KeyRefresh: Hashable, Sendable {
    /// The least pause between two fetches, so that tokens with invented keys cause no load.
    static let pause: Int64 = 60_000
    /// The age at which keys are fetched again.
    static let age: Int64 = 3_600_000
    /// How long the server uses keys while every fetch fails.
    static let lifeMax: Int64 = 24 * 3_600_000
    private var attempt: Int64?
    private var success: Int64?
    /// Whether the latest fetch failed, so that the provider may have other keys by now.
    private(set) var hasFailed = false

    /// Whether a token with an unknown key may cause a fetch.
    func mayFetch(now: Int64) -> Bool { hasPassed(Self.pause, since: attempt, now: now) }
    /// Whether the keys are old enough to be fetched again.
    func isDue(now: Int64) -> Bool { mayFetch(now: now) && hasPassed(Self.age, since: success, now: now) }
    /// Whether tokens may be verified with the keys.
    func areUsable(now: Int64) -> Bool { success.map { now - $0 < Self.lifeMax } ?? false }
    mutating func begin(now: Int64) { attempt = now }

    /// Notes the end of a fetch that began at `now`.
    mutating func end(isSuccess: Bool, now: Int64) {
        hasFailed = !isSuccess
        if isSuccess { success = now }
    }

    /// Whether so much time has passed; a clock that was set back does not stop the fetches.
    private func hasPassed(_ duration: Int64, since start: Int64?, now: Int64) -> Bool {
        guard let start, now >= start else { return true }
        return now - start >= duration
    }
}
