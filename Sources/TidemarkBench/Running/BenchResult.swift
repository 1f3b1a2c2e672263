/// The result of a case.
package struct BenchResult: Sendable, Encodable {
    /// The benchmark.
    package let benchmark: String
    /// The case.
    package let name: String
    /// The measured store.
    package let store: String
    /// The number of rows of a large table.
    package let rows: Int
    /// Tidemark's times, in seconds.
    package let seconds: Spread
    /// The ceiling's job.
    package let ceiling: String
    /// The ceiling's times, in seconds.
    package let ceilingSeconds: Spread?
    /// Tidemark's speed as a part of the ceiling's, by the medians.
    package let ratio: Double?
    /// The time of half of Tidemark's parts, in seconds.
    package let p50: Double?
    /// The time in which 99 of 100 of Tidemark's parts were done, in seconds.
    package let p99: Double?
    /// The ceiling's, as ``p50`` and ``p99``.
    package let ceilingP50: Double?
    /// See ``ceilingP50``.
    package let ceilingP99: Double?
    /// The traffic of one run.
    package let wire: Sample.Wire?
    /// Other figures, by the medians.
    package let figures: [Figure]
    /// The bytes of each day in both directions; empty if the job has no days.
    package let dailyBytes: [Int]
    /// The most memory of the process with both sides in it, in bytes.
    package let peakMemory: Int?
    /// The place on a growth curve, if it has one.
    package let (curve, point): (String?, BenchCase.Point?)
    /// The goal, in words.
    package let goal: String
    /// Whether the goal was reached; nil if there is none.
    package let isMet: Bool?

    init(
        _ benchmark: String, item: BenchCase, setting: BenchSetting, ours: [Sample], ceilings: [Sample],
        wire: Sample.Wire?, memory: Int?
    ) {
        self.benchmark = benchmark
        name = item.name
        store = setting.store
        rows = setting.rows
        ceiling = item.ceilingName
        peakMemory = memory
        self.wire = wire
        dailyBytes = ours.first?.dailyBytes ?? []
        curve = item.curve
        point = item.point
        let spread = Spread(ours.map(\.seconds))
        let its = ceilings.isEmpty ? nil : Spread(ceilings.map(\.seconds))
        seconds = spread
        ceilingSeconds = its
        let ratio = its.map { $0.median / max(spread.median, .ulpOfOne) }
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
            let matching = figures.filter { names.contains($0.name) }
            goal = "\(names.joined(separator: ", ")) ≤ \(unit.text(wanted))"
            isMet = matching.isEmpty ? nil : matching.allSatisfy { $0.value <= wanted }
        case nil: (goal, isMet) = ("", nil)
        }
    }
}
