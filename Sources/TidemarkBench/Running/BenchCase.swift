/// A measured job, and its goal.
package struct BenchCase: Sendable {
    /// The kinds of goals.
    package enum Goal: Hashable, Sendable {
        /// The speed is at least this part of the ceiling's.
        case speed(Double)
        /// The time is at most this many times the ceiling's.
        case time(Double)
        /// At most so many bytes travel, both ways together.
        case bytes(Int)
        /// Figures of these names are at most this great.
        case atMost(Double, Figure.Unit, [String])
    }

    /// A place on a growth curve.
    package struct Point: Hashable, Sendable, Encodable {
        /// The growing quantities.
        package enum Axis: String, Hashable, Sendable, Encodable, CaseIterable {
            case rows
            case revisions
        }

        /// The growing quantity.
        package let axis: Axis
        /// Its size at this place.
        package let value: Int
    }

    /// The job in words.
    package let name: String
    package let goal: Goal?
    /// The ceiling's job in words.
    package let ceilingName: String
    /// The place on a growth curve, if it has one.
    package var (curve, point): (String?, Point?)
    /// Prepares the job.
    package let prepare: @Sendable () async throws -> BenchJob

    /// Makes a case.
    package init(
        _ name: String, goal: Goal? = nil, against ceilingName: String = "",
        prepare: @escaping @Sendable () async throws -> BenchJob
    ) {
        self.name = name
        self.goal = goal
        self.ceilingName = ceilingName
        self.prepare = prepare
    }
}

/// A prepared job, which runs again and again.
package struct BenchJob: Sendable {
    /// The way to the server.
    package enum Way: Sendable {
        /// Direct, for times.
        case direct
        /// Through a relay that counts, for bytes: counting takes time.
        case counted
    }

    /// Runs the job once.
    ///
    /// Its preparation and the check of its result are outside of the reported time.
    package let ours: @Sendable (Way) async throws -> Sample
    /// Runs the ceiling once; nil if there is none.
    package var ceiling: (@Sendable () async throws -> Sample)?
    /// Stops all servers and processes of the job.
    package let finish: @Sendable () async throws -> Void
    /// Whether it runs once, and through the counting relay: its bytes are the result, and its time is not.
    package var isCountedOnly = false

    /// Makes a job.
    package init(
        ours: @escaping @Sendable (Way) async throws -> Sample, ceiling: (@Sendable () async throws -> Sample)? = nil,
        finish: @escaping @Sendable () async throws -> Void = {}
    ) {
        self.ours = ours
        self.ceiling = ceiling
        self.finish = finish
    }

    /// The same job, which after each timed run also reports the seconds of another job.
    func with(_ name: String, seconds: @escaping @Sendable () throws -> Double) -> BenchJob {
        var job = BenchJob(
            ours: { [ours] way in
                var sample = try await ours(way)
                if way != .counted { sample.figures.append(Figure(name, value: try seconds(), unit: .seconds)) }
                return sample
            },
            finish: finish)
        job.ceiling = ceiling
        job.isCountedOnly = isCountedOnly
        return job
    }

    /// The same job, with a last step after its end.
    func finally(_ more: @escaping @Sendable () async throws -> Void) -> BenchJob {
        BenchJob(ours: ours, ceiling: ceiling) { [finish] in
            try await finish()
            try await more()
        }
    }
}
