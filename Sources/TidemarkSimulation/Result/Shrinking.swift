/// Makes the story of a run short.
///
/// It leaves decisions out or sets them to 0, the simplest choice, for as long as the run still has
/// the property, for instance that it breaks the same promise. This is delta debugging, after
/// Zeller and Hildebrandt (2002).
package struct Shrinking {
    private let options: SimulationOptions
    private let templates: FileTemplates
    private let isStill: (Report) -> Bool
    private var best: [Span]
    private var runsLeft: Int

    /// Shrinks a run for as long as a condition holds.
    ///
    /// - Returns: The shortest run, with its trace.
    package static func shortest(
        _ report: Report, options: SimulationOptions, templates: FileTemplates, runsMax: Int = 3_000,
        isStill: @escaping (Report) -> Bool
    ) throws -> Report {
        var shrinking = Shrinking(
            options: options, templates: templates, isStill: isStill, best: report.decisions, runsLeft: runsMax)
        try shrinking.shrink()
        return try shrinking.run(shrinking.best, isTracing: true)
    }

    private mutating func shrink() throws {
        var size = 0
        repeat {
            size = weight
            try leaveOut(.act)
            try simplify(.carry)
            try simplify(.settle)
            try zero(.plan)
            if best.filter({ $0.kind == .act }).count <= 40 {
                try zero(.act)
                try zero(.carry)
            }
        } while weight < size && runsLeft > 0
    }

    /// The size to reduce: the events, and the decisions that are not 0.
    private var weight: Int { best.reduce(0) { $0 + 1 + $1.choices.filter { $0 != 0 }.count } }

    // MARK: Steps

    /// Leaves out events of a kind: first halves of the list, then ever smaller parts.
    private mutating func leaveOut(_ kind: Decisions.Kind) throws {
        var size = max(1, best.filter { $0.kind == kind }.count / 2)
        while true {
            var start = 0
            while true {
                let indices = best.indices.filter { best[$0].kind == kind }
                guard start < indices.count else { break }
                let part = Set(indices[start..<min(start + size, indices.count)])
                let shorter = best.indices.filter { !part.contains($0) }.map { best[$0] }
                if try !keeps(shorter) { start += size }
            }
            guard size > 1 else { return }
            size /= 2
        }
    }

    /// Sets all decisions of events of a kind to 0, first many events at a time.
    private mutating func simplify(_ kind: Decisions.Kind) throws {
        let indices = best.indices.filter { best[$0].kind == kind }
        var size = max(1, indices.count)
        while size > 0 {
            for start in stride(from: 0, to: indices.count, by: size) {
                let part = indices[start..<min(start + size, indices.count)].filter {
                    best[$0].choices.contains { $0 != 0 }
                }
                guard !part.isEmpty else { continue }
                var simpler = best
                for index in part { simpler[index].choices = [] }
                _ = try keeps(simpler)
            }
            size /= 2
        }
    }

    /// Sets single decisions of a kind to 0.
    private mutating func zero(_ kind: Decisions.Kind) throws {
        for index in best.indices where best[index].kind == kind {
            for choice in best[index].choices.indices.reversed()
            where choice < best[index].choices.count && best[index].choices[choice] != 0 {
                var simpler = best
                simpler[index].choices[choice] = 0
                _ = try keeps(simpler)
            }
        }
    }

    /// Takes over a list if the condition still holds.
    private mutating func keeps(_ candidate: [Span]) throws -> Bool {
        guard runsLeft > 0 else { return false }
        runsLeft -= 1
        let report = try run(candidate, isTracing: false)
        guard isStill(report) else { return false }
        best = candidate
        return true
    }

    private func run(_ decisions: [Span], isTracing: Bool) throws -> Report {
        var options = options
        options.replay = decisions
        options.isTracing = isTracing
        return try Simulation.run(options, templates)
    }
}

extension Simulation {
    /// Runs a seed and, if it breaks a promise, makes its story as short as possible.
    ///
    /// - Returns: The report of the shortest run, with its story in the trace.
    ///
    /// - Throws: SQLite's error if the files in memory cannot be made.
    package static func shortest(_ options: SimulationOptions) throws -> Report {
        let templates = FileTemplates()
        let report = try run(options, templates)
        guard let finding = report.finding else { return report }
        return try Shrinking.shortest(report, options: options, templates: templates) {
            $0.finding?.invariant == finding.invariant
        }
    }
}
