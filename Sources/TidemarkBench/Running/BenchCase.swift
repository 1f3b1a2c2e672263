/// A job that is measured, and what is wanted of it.
package struct BenchCase: Sendable {
    /// What is wanted.
    package enum Goal: Hashable, Sendable {
        /// Our speed is at least so much of the ceiling's.
        case speed(Double)
        /// Our time is at most so many times the ceiling's.
        case time(Double)
        /// At most so many bytes travel, both ways together.
        case bytes(Int)
        /// Figures of these names are at most so great.
        case atMost(Double, Figure.Unit, [String])
    }

    /// A place on a growth curve.
    package struct Point: Hashable, Sendable, Encodable {
        /// What grows.
        package enum Axis: String, Hashable, Sendable, Encodable, CaseIterable {
            case rows
            case revisions
        }

        /// What grows.
        package let axis: Axis
        /// How large it is here.
        package let value: Int
    }

    /// What is done.
    package let name: String
    package let goal: Goal?
    /// What the ceiling does.
    package let ceilingName: String
    /// The curve that it is part of, if it is of one, and where it stands there.
    package var (curve, point): (String?, Point?)
    /// Makes ready what the job needs.
    package let prepare: @Sendable () async throws -> BenchJob

    /// Makes a case.
    package init(
        _ name: String,
        goal: Goal? = nil,
        against ceilingName: String = "",
        prepare: @escaping @Sendable () async throws -> BenchJob
    ) {
        self.name = name
        self.goal = goal
        self.ceilingName = ceilingName
        self.prepare = prepare
    }
}

/// A job that is ready to run, again and again.
package struct BenchJob: Sendable {
    /// The way to the server.
    package enum Way: Sendable {
        /// Straight, for times.
        case direct
        /// Through a relay that counts, for bytes: counting takes time.
        case counted
    }

    /// The job, once; what it needs made ready, and the check of what it did, are outside of the
    /// time that it reports.
    package let ours: @Sendable (Way) async throws -> Sample
    /// The ceiling, once; nil when there is none to compare with.
    package var ceiling: (@Sendable () async throws -> Sample)?
    /// Ends what was started.
    package let finish: @Sendable () async throws -> Void

    /// Makes a job.
    package init(
        ours: @escaping @Sendable (Way) async throws -> Sample,
        ceiling: (@Sendable () async throws -> Sample)? = nil,
        finish: @escaping @Sendable () async throws -> Void = {}
    ) {
        self.ours = ours
        self.ceiling = ceiling
        self.finish = finish
    }

    /// The same job, which after each timed run also says how many seconds something else takes.
    func with(_ name: String, seconds: @escaping @Sendable () throws -> Double) -> BenchJob {
        var job = BenchJob(
            ours: { [ours] way in
                var sample = try await ours(way)
                if way != .counted { sample.figures.append(Figure(name, try seconds(), .seconds)) }
                return sample
            },
            finish: finish
        )
        job.ceiling = ceiling
        return job
    }

    /// The same job, with something that happens when all else is ended.
    func finally(_ more: @escaping @Sendable () async throws -> Void) -> BenchJob {
        BenchJob(ours: ours, ceiling: ceiling) { [finish] in
            try await finish()
            try await more()
        }
    }
}
