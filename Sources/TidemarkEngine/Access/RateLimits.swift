/// How much a device, a user and an address may ask of one server.
///
/// Each server process counts by itself, so several nodes together allow as many times as much.
public struct RateLimits: Hashable, Sendable {
    /// A limited quantity, and whose it is.
    public enum Rule: String, CaseIterable, Hashable, Sendable {
        /// The requests of a device.
        case requestsPerDevice
        /// The requests of a user, with all devices together.
        case requestsPerUser
        /// The bytes of the requests' bodies of a user, as they travel.
        case uploadBytesPerUser
        /// The snapshots and the comparisons of rows of a device.
        case snapshotsPerDevice
        /// The requests of an address whose tokens were refused.
        case failedSignInsPerAddress
    }

    /// A permitted rate.
    public struct Rate: Hashable, Sendable {
        /// The amount that becomes available in a minute.
        public var perMinute: Int64
        /// The most that can be saved up, and so used at once.
        public var burst: Int64

        /// The largest value of both.
        public static let valueMax: Int64 = 10_000_000_000

        /// Makes a rate; values outside 1 to ``valueMax`` are moved to the nearest bound.
        public init(perMinute: Int64, burst: Int64) {
            self.perMinute = min(max(1, perMinute), Self.valueMax)
            self.burst = min(max(1, burst), Self.valueMax)
        }
    }

    private var rates: [Rule: Rate] = [:]

    /// The limits of a server that states none.
    public static let standard = RateLimits()

    /// Makes the standard limits.
    public init() {}

    /// The rate of a rule.
    public subscript(rule: Rule) -> Rate {
        get { rates[rule] ?? Self.standardRate(rule) }
        set { rates[rule] = newValue }
    }

    private static func standardRate(_ rule: Rule) -> Rate {
        switch rule {
        case .requestsPerDevice: Rate(perMinute: 1_200, burst: 100)
        case .requestsPerUser: Rate(perMinute: 2_400, burst: 200)
        case .uploadBytesPerUser: Rate(perMinute: 64 << 20, burst: 64 << 20)
        // One repair of a large table takes some ten comparisons.
        case .snapshotsPerDevice: Rate(perMinute: 6, burst: 20)
        case .failedSignInsPerAddress: Rate(perMinute: 60, burst: 60)
        }
    }
}
