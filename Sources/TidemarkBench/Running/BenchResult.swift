/// What a case came to.
package struct BenchResult: Sendable, Encodable {
    /// The benchmark.
    package let benchmark: String
    /// The case.
    package let name: String
    /// The store that was measured.
    package let store: String
    /// How many rows a large table had.
    package let rows: Int
    /// Our times, in seconds.
    package let seconds: Spread
    /// What it was compared with.
    package let ceiling: String
    /// The ceiling's times, in seconds.
    package let ceilingSeconds: Spread?
    /// Our speed as a part of the ceiling's, by the medians.
    package let ratio: Double?
    /// The time of half of our parts, and of 99 in 100, in seconds.
    package let p50: Double?
    /// The time in which 99 in 100 of our parts were done, in seconds.
    package let p99: Double?
    /// The ceiling's, as ``p50`` and ``p99``.
    package let ceilingP50: Double?
    /// See ``ceilingP50``.
    package let ceilingP99: Double?
    /// What went over the wire in one run.
    package let wire: Sample.Wire?
    /// What else was measured, by the medians.
    package let figures: [Figure]
    /// The most memory of the process with both sides in it, in bytes.
    package let peakMemory: Int?
    /// The growth curve that it is part of, and where it stands there.
    package let (curve, point): (String?, BenchCase.Point?)
    /// What was wanted, in words.
    package let goal: String
    /// Whether it was reached; nil when nothing was wanted.
    package let isMet: Bool?

    init(
        _ benchmark: String,
        _ item: BenchCase,
        _ setting: BenchSetting,
        _ ours: [Sample],
        _ ceilings: [Sample],
        wire: Sample.Wire?,
        memory: Int?
    ) {
        self.benchmark = benchmark
        name = item.name
        store = setting.store
        rows = setting.rows
        ceiling = item.ceilingName
        peakMemory = memory
        self.wire = wire
        curve = item.curve
        point = item.point
        let mine = Spread(ours.map(\.seconds))
        let its = ceilings.isEmpty ? nil : Spread(ceilings.map(\.seconds))
        seconds = mine
        ceilingSeconds = its
        let ratio = its.map { $0.median / max(mine.median, .ulpOfOne) }
        let figures = Figure.medians(of: ours)
        self.ratio = ratio
        self.figures = figures
        let parts = ours.flatMap(\.latencies)
        let theirs = ceilings.flatMap(\.latencies)
        p50 = Spread.percentile(0.5, of: parts)
        p99 = Spread.percentile(0.99, of: parts)
        ceilingP50 = Spread.percentile(0.5, of: theirs)
        ceilingP99 = Spread.percentile(0.99, of: theirs)
        switch item.goal {
        case .speed(let wanted):
            goal = "speed ≥ \(wanted)"
            isMet = ratio.map { $0 >= wanted }
        case .time(let wanted):
            goal = "time ≤ \(wanted)"
            isMet = ratio.map { 1 / $0 <= wanted }
        case .bytes(let wanted):
            goal = "bytes ≤ \(wanted)"
            isMet = wire.map { $0.bytesUp + $0.bytesDown <= wanted }
        case .atMost(let wanted, let unit, let names):
            let found = figures.filter { names.contains($0.name) }
            goal = "\(names.joined(separator: ", ")) ≤ \(unit.text(wanted))"
            isMet = found.isEmpty ? nil : found.allSatisfy { $0.value <= wanted }
        case nil: (goal, isMet) = ("", nil)
        }
    }
}
