import Testing
import TidemarkSimulation
import TidemarkTestSupport

/// A seed that once found a defect.
struct Regression: Sendable, CustomTestStringConvertible {
    let seed: UInt64
    var profile = Profile.all
    var rounds = 200
    /// The defect, in words.
    let defect: String

    var testDescription: String { "\(profile.rawValue) \(seed): \(defect)" }

    /// All regressions; they run for ever.
    static let all: [Regression] = [
        Regression(
            seed: 23, profile: .schema, rounds: 60,
            defect: "a confirmed record kept the device's value of a column that the zone got later"),
        Regression(
            seed: 55, profile: .schema, rounds: 60,
            defect: "the same, in a record replaced before the zone got the column"),
        Regression(seed: 8, profile: .schema, defect: "a rename lost the values of a column that the app did not have"),
        Regression(
            seed: 11, profile: .schema, defect: "an app without a column refused answers with the column's former name"),
        Regression(
            seed: 6, profile: .schema,
            defect: "the checker took captured changes of an app's own table for the engine's writes"),
        Regression(
            seed: 26, profile: .schema, rounds: 40,
            defect: "the checker expected local-only columns of a change set at the server"),
        Regression(
            seed: 3184, rounds: 40,
            defect: "the recorder confused a new connection with an old one of the same change count"),
        Regression(
            seed: 7191, rounds: 40,
            defect: "a new row with a reference as its key kept the temporary id if no rewind happened"),
        Regression(
            seed: 93_520, profile: .schema,
            defect: "the checker forgot a row's local-only columns after its refused deletion"),
        Regression(
            seed: 96_524, profile: .schema, defect: "a text reference to a refused new record was not parked with it"),
        Regression(
            seed: 97_148, profile: .schema,
            defect: "rows of a new table referenced a record that a pending edit of the older app had deleted"),
        Regression(
            seed: 102_037, rounds: 40, defect: "a deletion cascaded to a record whose own earlier deletion was refused"),
        Regression(
            seed: 104_356, profile: .schema,
            defect: "an older edit of a local-only column stayed pending under a newer, sent one"),
        Regression(
            seed: 104_385, profile: .schema, defect: "a page had a fingerprint or not, depending on grouped writes"),
        Regression(
            seed: 104_526, profile: .schema,
            defect: "a migration's values were not shown until the next answer in a row with a hidden edit"),
        Regression(
            seed: 104_566, profile: .schema,
            defect: "after a lost answer a delta doubled the committed record, and lost an edit of it"),
        Regression(
            seed: 106_410, profile: .crash,
            defect: "a large change set of the same group did not count towards the bound for a delta"),
        Regression(
            seed: 106_610, profile: .network,
            defect: "a sync gave up although each delta made progress while the zone changed"),
        Regression(seed: 9, defect: "the checker did not know change sets that a device makes again under another id"),
        Regression(seed: 9, profile: .storage, defect: "the same, with a reference as a key"),
        Regression(seed: 143, defect: "the conflict of a dependent change set had an outdated record of the server"),
        Regression(
            seed: 9, profile: .policies, defect: "the checker overlooked a unique value that stays by its policy"),
        Regression(
            seed: 10, profile: .restore, defect: "the checker did not know that a later copy brings revisions back"),
        Regression(
            seed: 15, profile: .restore, defect: "the checker found no cause for parking a dependent change set"),
        Regression(
            seed: 18, profile: .restore, defect: "the checker did not know first ids of records that were offered again"
        ),
        Regression(seed: 38, profile: .restore, defect: "the checker took an own earlier change set for an unseen one"),
        Regression(
            seed: 783_016, profile: .restore, defect: "the checker did not find an edit that was drained in two parts"),
        Regression(
            seed: 76, profile: .policies,
            defect: "a new record drew a temporary id that another one had before, and replaced it"),
        Regression(seed: 148, defect: "the same, after the retry of a conflict without policies"),
        Regression(
            seed: 55, profile: .restore,
            defect: "a copy of a file asked about as many waiting change sets only as it sends in one request"),
        Regression(
            seed: 67, profile: .restore,
            defect: "the same, and edits of a new record referred to an id that the server did not know"),
        Regression(
            seed: 29, profile: .live,
            defect: "the checker took an own record for seen that the change set neither names nor builds on"),
        Regression(
            seed: 46, profile: .storage,
            defect: "the checker did not know that an edit may follow the own deletion that does not fit yet"),
        Regression(
            seed: 153, profile: .policies,
            defect: "a counter without two of its waiting parts became a conflict that nobody had made"),
        Regression(seed: 220, profile: .policies, defect: "the same, with a value between the parts"),
        Regression(
            seed: 277, profile: .policies,
            defect: "a policy let a new record overrule another one, which the scenario did not notice"),
        Regression(
            seed: 84, profile: .live,
            defect: "a sync gave up although each file brought newer rows while the zone changed"),
        Regression(
            seed: 108, profile: .live,
            defect: "the checker did not know a parked predecessor that was made again in the same step"),
        Regression(
            seed: 903_100_009_006, profile: .rest, rounds: 60,
            defect: "the checker took a client's tag from before its own deletion, which emptied a reference, for valid"
        ),
        Regression(
            seed: 783_075, profile: .restore,
            defect: "compaction made a device's earlier edit another device's, and refused its next one"),
        Regression(
            seed: 800_017, profile: .rest,
            defect: "a sum of the drain confirmed a change set, and the record's next change had another base"),
        Regression(
            seed: 800_020, profile: .fates,
            defect: "an acknowledged deletion, offered again after a restore, took children along that others made"),
        Regression(
            seed: 800_005, profile: .fates,
            defect: "after a restore, edits without triggers beside a rebuilt table were replaced unseen"),
        Regression(
            seed: 800_021, profile: .fates,
            defect: "after a restore, a device's own acknowledged rows became edits that no trigger captured"),
        Regression(
            seed: 1018, profile: .fates,
            defect: "a migration's edit of a row that was edited later was lost with the next snapshot"),
        Regression(
            seed: 1003, profile: .fates,
            defect: "a pending change referred to a lost record, whose id another new record of the request got"),
        Regression(seed: 33, rounds: 10, defect: "a retry of a refused change set beside new rows of another program"),
    ]
}

/// Rule 23: what a seed has found once stays mended.
@Suite struct RegressionTests {
    @Test(arguments: Regression.all) func `every seed that once found a defect passes`(regression: Regression)
        throws
    {
        let report = try Simulation.run(
            .init(seed: regression.seed, rounds: regression.rounds, profile: regression.profile), FileTemplates())
        #expect(report.finding == nil, "\(regression.defect)")
    }
}
