import Testing
import TidemarkSimulation

/// The simulation proves itself: bugs are planted in the real code, one at a time, and detected.
@Suite(.serialized) struct PlantedBugTests {
    @Test(arguments: Proof.names) func `A15: the checker notices each planted bug`(name: String) throws {
        let outcome = try #require(try Proof(seedsMax: 25).prove(name))
        #expect(outcome.caughtBy != nil, "not detected in \(outcome.tried) worlds")
    }

    @Test func `A15: at least thirty bugs are planted, in every group of failures and for every rule`() {
        #expect(Proof.names.count >= 30)
        #expect(Proof.groups == ["A", "B", "C", "D", "E"])
        // Rule 8, read access, needs authentication.
        #expect(Set(1...22).subtracting(Proof.rules) == [8])
    }

    @Test func `prove refuses the name of an unknown bug`() throws {
        #expect(try Proof().prove("noSuchBug") == nil)
    }
}
