import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkTestSupport

/// Cases 6 29 30 31, rules 2 4 10: every disk call fails once, and the power is cut at every call.
@Suite struct StorageFaultTests {
    @Test(arguments: Scenario.all, StorageBench.Side.allCases)
    func `cases 6 and 31: a failure of any disk call loses and doubles nothing`(
        scenario: Scenario, side: StorageBench.Side
    ) async throws {
        let (start, expected) = try await prepare(scenario)
        for fault in [FaultVolume.Fault.io, .full] {
            try await exhaust(scenario, from: start, expected) { bench, call in
                bench.disk(side).fail(
                    fault,
                    call: call,
                    of: fault == .full ? .growing : .all,
                    // A medium error may be temporary; a full disk stays full until space is freed.
                    onwards: fault == .full
                )
                return bench.disk(side)
            } recover: { bench, error, _ in
                bench.disk(side).heal()
                expectTyped(error, fault)
            }
        }
    }

    @Test(arguments: Scenario.all, StorageBench.Side.allCases)
    func `case 30: after a power cut at any disk call all acknowledged change sets are there`(
        scenario: Scenario, side: StorageBench.Side
    ) async throws {
        let (start, expected) = try await prepare(scenario)
        try await exhaust(scenario, from: start, expected) { bench, call in
            bench.disk(side).fail(.power, call: call)
            return bench.disk(side)
        } recover: { bench, _, call in
            bench.disk(side).crash(seed: UInt64(call))
            bench.drop(side)
        }
    }

    // MARK: Driving

    /// The step between failing calls; with `TIDEMARK_STORAGE_STRIDE=1` every call fails once.
    private static let stride = Effort.count("TIDEMARK_STORAGE_STRIDE", short: 97, long: 23)

    /// The state before a scenario, and the rows after it without faults.
    private func prepare(_ scenario: Scenario) async throws -> (StorageBench.Image, [String]) {
        let joined = try await StorageBench.joined()
        for step in scenario.before { try await step(joined) }
        let image = try await joined.image()
        let bench = try StorageBench(image)
        for step in scenario.steps { try await step(bench) }
        try await bench.sync()
        return (image, try await bench.verdict())
    }

    /// Runs a scenario with a fault at the first call, then at the second, until the scenario ends
    /// before its fault.
    private func exhaust(
        _ scenario: Scenario, from start: StorageBench.Image, _ expected: [String],
        fail: (StorageBench, Int) -> FaultVolume, recover: (StorageBench, any Error, Int) async throws -> Void
    ) async throws {
        for call in Swift.stride(from: 1 + scenario.name.count % Self.stride, to: 5000, by: Self.stride) {
            let bench = try StorageBench(start)
            if scenario.name != Scenario.all[0].name { try await bench.reopen() }
            let disk = fail(bench, call)
            var hasFailed = false
            for step in scenario.steps {
                do { try await step(bench) } catch {
                    hasFailed = true
                    try await recover(bench, error, call)
                    try await step(bench)
                }
            }
            let isDone = disk.failureCount == 0 && !hasFailed
            disk.heal()
            if !hasFailed, !isDone { try await recover(bench, Harmless(), call) }
            try await bench.sync()
            let verdict = try await bench.verdict()
            #expect(verdict == expected, "\(scenario.name): call \(call)")
            if isDone || verdict != expected { return }
        }
    }

    private func expectTyped(_ error: any Error, _ fault: FaultVolume.Fault) {
        switch error {
        case let error as TidemarkError:
            #expect(error.code == .storageFailed, "\(error)")
            #expect(error.recovery == .retry)
        case is DatabaseError, is Harmless:
            // The app's own statement failed, or SQLite handled the failure by itself.
            return
        default: Issue.record("\(error)")
        }
    }
}

/// A call has failed, and no error was required.
private struct Harmless: Error {}
