import ArgumentParser
import TidemarkSimulation
import TidemarkTerminal

#if DEBUG
/// `tidemark-dev simulate --planted`: shows which check detects which planted bug.
enum SimulatePlanted {
    /// Plants one bug, or all, and lists the check that detected each.
    static func run(_ name: String) async throws {
        let names = name == "all" ? Proof.names : [name]
        let bar = ProgressBar("proving")
        var outcomes: [Proof.Outcome] = []
        for (index, name) in names.enumerated() {
            guard let outcome = try await Proof().prove(name) else {
                throw ValidationError("There is no planted bug \(name): all, \(Proof.names.joined(separator: ", ")).")
            }
            outcomes.append(outcome)
            bar.update(index + 1, of: names.count, unit: "bugs")
        }
        let caughtCount = outcomes.filter { $0.caughtBy != nil }.count
        bar.finish("\(caughtCount) of \(outcomes.count) planted bugs were noticed")
        Terminal.table(
            [["planted bug", "breaks", "noticed by", "as", "worlds"]]
                + outcomes.map { outcome in
                    [
                        outcome.bug, outcome.place, outcome.caughtBy ?? "nobody", outcome.finding?.invariant ?? "-",
                        String(outcome.tried),
                    ]
                },
            right: [4])
        if names.count == 1, let finding = outcomes.first?.finding { Terminal.line("\(finding)") }
        guard caughtCount == outcomes.count else { throw ExitCode.failure }
    }
}
#else
/// A release build has no planted bugs.
enum SimulatePlanted {
    /// Throws an error, because planted bugs need a debug build.
    static func run(_ name: String) async throws {
        throw ValidationError(
            "Bugs can be planted in debug builds only, and this is a release build. Run `make prove`.")
    }
}
#endif
