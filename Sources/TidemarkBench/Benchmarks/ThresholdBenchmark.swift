/// The size from which a delta is better than change sets, for
/// ``TidemarkCore/Limits/deltaBytesMin``.
///
/// At a ratio of 1 the two cross; above it the delta is quicker.
enum ThresholdBenchmark: Benchmark {
    static let name = "threshold"
    static let summary = "the same rows behind, taken in as a delta and as change sets"

    /// The changes while a device was away.
    private struct Absence {
        /// The number of changed records.
        let records: Int
        /// The number of changes of each record.
        var times = 1
        /// The number of records in a change set.
        var perChangeSet = 1_000
    }

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let rows = setting.rows
        let once = [200, 100, 50, 20, 10, 4].map { Absence(records: max(1, rows / $0)) }
        let alone = [200, 50].map { Absence(records: max(1, rows / $0), perChangeSet: 1) }
        let times = setting.isTrial ? [3] : [3, 10, 30, 100]
        let often = times.map { Absence(records: max(1, rows / 1_000), times: $0) }
        return (once + alone + often).map { absence in
            BenchCase(
                "\(absence.records) of \(rows) records, \(absence.times)×, \(min(absence.records, absence.perChangeSet)) a change set",
                against: "the change sets; 1 is where the two cross"
            ) { try await job(absence, setting) }
        }
    }

    private static func job(_ absence: Absence, _ setting: BenchSetting) async throws -> BenchJob {
        let zone = Workplace.Zone(rows: setting.rows)
        let sql = changes(in: absence)
        let delta = try await BehindDevice(setting, zone, changes: sql, by: .delta)
        let sets = try await BehindDevice(setting, zone, changes: sql, by: .changeSets)
        let size = try await sets.missedBytes()
        let wire = try await sets.sync(.counted).wire
        return BenchJob(
            ours: { way in
                var sample = try await delta.sync(way)
                sample.figures = [
                    Figure("change sets", value: Double(size), unit: .bytes),
                    Figure("compressed", value: Double(wire?.bytesDown ?? 0), unit: .bytes),
                ]
                return sample
            },
            ceiling: { try await sets.sync(.direct) },
            finish: {
                try await delta.place.end()
                try await sets.place.end()
            }
        )
    }

    private static func changes(in absence: Absence) -> [[String]] {
        (1...absence.times).map { time in
            stride(from: 1, through: absence.records, by: absence.perChangeSet).map { first in
                """
                UPDATE item SET amount = amount + 1,
                    note = 'said of ' || id || ' for time \(time), in some forty characters'
                WHERE id BETWEEN \(first) AND \
                \(min(absence.records, first + absence.perChangeSet - 1))
                """
            }
        }
    }
}
