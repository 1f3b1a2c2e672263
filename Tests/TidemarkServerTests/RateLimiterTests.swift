import Testing
import TidemarkEngine

/// Token buckets, in virtual time.
@Suite struct RateLimiterTests {
    private static func limits(_ perMinute: Int64, burst: Int64) -> RateLimits {
        var limits = RateLimits()
        for rule in RateLimits.Rule.allCases { limits[rule] = RateLimits.Rate(perMinute: perMinute, burst: burst) }
        return limits
    }

    private static func cost(_ amount: Int64 = 1, of sender: String = "a") -> RateLimiter.Cost {
        RateLimiter.Cost(.requestsPerUser, of: sender, amount: amount)
    }

    @Test func `a burst fits at once, then one request each time that one more is due`() {
        var limiter = RateLimiter(Self.limits(60, burst: 3))
        for _ in 1...3 { #expect(limiter.take([Self.cost()], now: 0) == nil) }
        #expect(limiter.take([Self.cost()], now: 0) == 1_000)
        #expect(limiter.take([Self.cost()], now: 999) == 1)
        #expect(limiter.take([Self.cost()], now: 1_000) == nil)
        #expect(limiter.take([Self.cost()], now: 1_000) == 1_000)
        // No more than the burst is saved up.
        for _ in 1...3 { #expect(limiter.take([Self.cost()], now: 1_000_000) == nil) }
        #expect(limiter.take([Self.cost()], now: 1_000_000) == 1_000)
    }

    @Test(arguments: [1, 7, 60, 999, 1_200, 10_000_000_000] as [Int64]) func `after the stated pause the request fits`(
        perMinute: Int64
    ) {
        var limiter = RateLimiter(Self.limits(perMinute, burst: 5))
        var now: Int64 = 0
        for _ in 1...200 {
            guard let wait = limiter.take([Self.cost(2)], now: now) else { continue }
            #expect(wait > 0)
            #expect(limiter.wait(for: Self.cost(2), now: now + wait - 1) > 0)
            now += wait
            #expect(limiter.take([Self.cost(2)], now: now) == nil)
        }
    }

    @Test func `a request takes all its costs or none`() {
        var limits = Self.limits(60, burst: 10)
        limits[.requestsPerDevice] = RateLimits.Rate(perMinute: 60, burst: 1)
        var limiter = RateLimiter(limits)
        let costs = [Self.cost(), RateLimiter.Cost(.requestsPerDevice, of: "a")]
        #expect(limiter.take(costs, now: 0) == nil)
        for _ in 1...20 { #expect(limiter.take(costs, now: 0) == 1_000) }
        for _ in 1...9 { #expect(limiter.take([Self.cost()], now: 0) == nil) }
        #expect(limiter.take([Self.cost()], now: 0) == 1_000)
    }

    @Test func `senders and rules do not share`() {
        var limiter = RateLimiter(Self.limits(60, burst: 1))
        #expect(limiter.take([Self.cost(of: "a")], now: 0) == nil)
        #expect(limiter.take([Self.cost(of: "b")], now: 0) == nil)
        #expect(limiter.take([RateLimiter.Cost(.failedSignInsPerAddress, of: "a")], now: 0) == nil)
        #expect(limiter.take([Self.cost(of: "a")], now: 0) != nil)
    }

    @Test func `a body larger than the burst fits a full bucket, which then takes longer to fill`() {
        var limiter = RateLimiter(Self.limits(60, burst: 10))
        #expect(limiter.take([Self.cost(15)], now: 0) == nil)
        #expect(limiter.take([Self.cost(1)], now: 0) == 6_000)
        #expect(limiter.take([Self.cost(1)], now: 6_000) == nil)
    }

    @Test func `nobody owes more than one burst`() {
        var limiter = RateLimiter(Self.limits(60, burst: 10))
        #expect(limiter.take([Self.cost(.max)], now: 0) == nil)
        #expect(limiter.take([Self.cost(1)], now: 0) == 11_000)
        #expect(limiter.spendWithinDebt(Self.cost(5), now: 11_000) == nil)
        #expect(limiter.spendWithinDebt(Self.cost(7), now: 11_000) == 20_000)
        #expect(limiter.take([Self.cost(1)], now: 22_000) == nil)
    }

    @Test func `a body of the greatest length that a client can state makes no overflow`() {
        var limiter = RateLimiter(Self.limits(RateLimits.Rate.valueMax, burst: RateLimits.Rate.valueMax))
        for now in [0, 1, .max / 2, .max] as [Int64] {
            _ = limiter.take([Self.cost(.max), Self.cost(.min)], now: now)
            limiter.spend(Self.cost(.max), now: now)
        }
        #expect(limiter.wait(for: Self.cost(.max), now: .max) > 0)
    }

    @Test func `a clock that goes back gives nothing`() {
        var limiter = RateLimiter(Self.limits(60, burst: 1))
        #expect(limiter.take([Self.cost()], now: 100_000) == nil)
        #expect(limiter.take([Self.cost()], now: 0) == 1_000)
        #expect(limiter.take([Self.cost()], now: 100_500) == 500)
    }

    @Test func `ten thousand senders take the room of a thousand`() {
        var limiter = RateLimiter(.standard, countMax: 1_000)
        for number in 0..<10_000 {
            for rule in RateLimits.Rule.allCases {
                _ = limiter.take([RateLimiter.Cost(rule, of: "\(number)")], now: Int64(number))
            }
        }
        #expect(limiter.count == 1_000)
        #expect(RateLimiter.countMax == 100_000)
    }

    @Test func `other limits count from the next request on, and earlier requests count`() {
        var limiter = RateLimiter(Self.limits(60, burst: 100))
        for _ in 1...10 { #expect(limiter.take([Self.cost()], now: 0) == nil) }
        limiter.limits = Self.limits(60, burst: 2)
        #expect(limiter.take([Self.cost(), Self.cost()], now: 0) == nil)
        #expect(limiter.take([Self.cost()], now: 0) == 1_000)
    }

    @Test func `the standard limits are those of the documentation`() {
        let limits = RateLimits.standard
        #expect(limits[.requestsPerDevice] == RateLimits.Rate(perMinute: 1_200, burst: 100))
        #expect(limits[.requestsPerUser] == RateLimits.Rate(perMinute: 2_400, burst: 200))
        #expect(limits[.uploadBytesPerUser] == RateLimits.Rate(perMinute: 64 << 20, burst: 64 << 20))
        #expect(limits[.snapshotsPerDevice] == RateLimits.Rate(perMinute: 6, burst: 20))
        #expect(limits[.failedSignInsPerAddress] == RateLimits.Rate(perMinute: 60, burst: 60))
        #expect(RateLimits.Rate(perMinute: 0, burst: .max) == RateLimits.Rate(perMinute: 1, burst: 10_000_000_000))
    }
}
