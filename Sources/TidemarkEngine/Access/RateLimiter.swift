/// Decides whether a request fits the ``RateLimits``: one token bucket for each rule and sender.
///
/// A bucket fills with the rule's rate up to its burst, and each request takes its cost from it. A
/// bucket that nobody has used for long is full, so to forget it changes nothing. That bounds the
/// memory: the bucket whose last use is oldest makes room for a new one.
package struct RateLimiter: Sendable {
    /// The most buckets of all rules together.
    package static let countMax = 100_000

    package struct Cost: Hashable, Sendable {
        package let rule: RateLimits.Rule
        /// The device, user or address.
        package let sender: String
        /// The amount: requests, or bytes.
        package let amount: Int64

        package init(_ rule: RateLimits.Rule, of sender: String, amount: Int64 = 1) {
            self.rule = rule
            self.sender = sender
            self.amount = max(0, amount)
        }
    }

    /// The limits; a bucket that is fuller than its burst loses the rest.
    package var limits: RateLimits

    private var buckets: [RateLimits.Rule: LeastRecent<String, Bucket>]

    /// Makes a limiter whose buckets are full.
    package init(_ limits: RateLimits, countMax: Int = Self.countMax) {
        self.limits = limits
        // A sender with many devices can then push out the buckets of one rule only.
        let share = countMax / RateLimits.Rule.allCases.count
        buckets = Dictionary(uniqueKeysWithValues: RateLimits.Rule.allCases.map { ($0, LeastRecent(countMax: share)) })
    }

    package var count: Int { buckets.values.reduce(0) { $0 + $1.count } }

    /// Takes all costs of a request, or none if one does not fit; returns nil, or the milliseconds until all fit.
    ///
    /// A cost greater than the burst fits a full bucket, which then takes longer to fill: up to twice as long. `now` is
    /// in milliseconds, of a clock that does not go back.
    package mutating func take(_ costs: [Cost], now: Int64) -> Int64? {
        let waits = costs.map { bucket(of: $0, now: now).wait(for: $0.amount, rate: limits[$0.rule]) }
        if let wait = waits.max(), wait > 0 { return wait }
        for cost in costs { spend(cost, now: now) }
        return nil
    }

    /// Takes a cost that has already occurred, whether or not it fits.
    package mutating func spend(_ cost: Cost, now: Int64) {
        var bucket = bucket(of: cost, now: now)
        bucket.spend(cost.amount, rate: limits[cost.rule])
        buckets[cost.rule]?.set(bucket, for: cost.sender)
    }

    /// Takes a cost that has occurred, and returns the milliseconds to wait if its sender then owes more than a burst.
    package mutating func spendWithinDebt(_ cost: Cost, now: Int64) -> Int64? {
        let burst = limits[cost.rule].burst
        let isWithin = bucket(of: cost, now: now).isWithinDebt(cost.amount, rate: limits[cost.rule])
        spend(cost, now: now)
        return isWithin ? nil : wait(for: Cost(cost.rule, of: cost.sender, amount: burst), now: now)
    }

    /// Returns the milliseconds until a cost fits, 0 if it fits now; it takes nothing.
    package func wait(for cost: Cost, now: Int64) -> Int64 {
        bucket(of: cost, now: now).wait(for: cost.amount, rate: limits[cost.rule])
    }

    private func bucket(of cost: Cost, now: Int64) -> Bucket {
        let rate = limits[cost.rule]
        guard var bucket = buckets[cost.rule]?.value(of: cost.sender) else { return Bucket(full: rate, now: now) }
        bucket.fill(rate, now: now)
        return bucket
    }

    /// The available amount, counted in sixty-thousandths of a request or byte, so that integers suffice.
    private struct Bucket: Sendable {
        private var level: Int64
        private var time: Int64

        private static let parts: Int64 = 60_000

        init(full rate: RateLimits.Rate, now: Int64) {
            level = rate.burst * Self.parts
            time = now
        }

        mutating func fill(_ rate: RateLimits.Rate, now: Int64) {
            let full = rate.burst * Self.parts
            // A part becomes available each millisecond for each unit of the rate per minute.
            let missing = max(0, full - level)
            let elapsed = min(max(0, now - time), missing / rate.perMinute + 1)
            level = min(full, level + elapsed * rate.perMinute)
            time = max(time, now)
        }

        func wait(for amount: Int64, rate: RateLimits.Rate) -> Int64 {
            let needed = min(amount, rate.burst) * Self.parts - level
            return needed <= 0 ? 0 : (needed + rate.perMinute - 1) / rate.perMinute
        }

        func isWithinDebt(_ amount: Int64, rate: RateLimits.Rate) -> Bool {
            level - min(amount, RateLimits.Rate.valueMax) * Self.parts >= -rate.burst * Self.parts
        }

        mutating func spend(_ amount: Int64, rate: RateLimits.Rate) {
            // Nobody owes more than one burst.
            level = max(level - min(amount, RateLimits.Rate.valueMax) * Self.parts, -rate.burst * Self.parts)
        }
    }
}
