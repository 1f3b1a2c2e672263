import Testing
import TidemarkCore
import TidemarkSimulation
import TidemarkTestSupport

/// The simulation proves itself: bugs are planted in the real code, one at a time, and detected.
@Suite(.serialized) struct PlantedBugTests {
    /// All bugs at full length, and every third one otherwise.
    private static let names =
        Effort.isLong ? Proof.names : Proof.names.enumerated().filter { $0.offset % 3 == 0 }.map(\.element)

    @Test(arguments: names) func `A15: the checker notices each planted bug`(name: String) async throws {
        let outcome = try #require(try await Proof(seedsMax: 25).prove(name))
        #expect(outcome.caughtBy != nil, "not detected in \(outcome.tried) worlds")
    }

    @Test func `A15: at least thirty bugs are planted, in every group of failures and for every rule`() {
        #expect(Proof.names.count >= 30)
        #expect(Proof.groups == ["A", "B", "C", "D", "E"])
        #expect(Set(1...22).isSubset(of: Proof.rules))
    }

    @Test func `A15: something notices every bug that can be planted`() {
        #expect(Set(PlantedBug.allCases.map(\.rawValue)) == Set(Proof.names))
    }

    @Test func `prove refuses the name of an unknown bug`() async throws {
        #expect(try await Proof().prove("noSuchBug") == nil)
    }
}
