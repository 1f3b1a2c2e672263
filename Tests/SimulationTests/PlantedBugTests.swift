import Testing
import TidemarkSimulation

/// The simulation proves itself: bugs are planted in the real code, one at a time, and noticed.
@Suite(.serialized) struct PlantedBugTests {
    @Test(arguments: Proof.names) func `A15: a bug that somebody plants is noticed`(name: String) throws {
        let outcome = try #require(try Proof(seedsMax: 25).prove(name))
        #expect(outcome.caughtBy != nil, "nobody noticed it in \(outcome.tried) worlds")
    }

    @Test func `A15: at least thirty bugs, in every group of failures and for every rule`() {
        #expect(Proof.names.count >= 30)
        #expect(Proof.groups == ["A", "B", "C", "D", "E"])
        // Rule 8, who may read what, needs authentication.
        #expect(Set(1...22).subtracting(Proof.rules) == [8])
    }

    @Test func `a bug that nobody knows of is nothing to prove`() throws {
        #expect(try Proof().prove("noSuchBug") == nil)
    }
}
