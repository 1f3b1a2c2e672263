import Testing
import TidemarkSimulation

/// A seed that has found a defect once, and what that was.
struct Regression: Sendable, CustomTestStringConvertible {
    let seed: UInt64
    var profile = Profile.all
    var rounds = 200
    /// The defect, in words.
    let found: String

    var testDescription: String { "\(profile.rawValue) \(seed): \(found)" }

    /// All of them; they are run for ever.
    static let all: [Regression] = [
        Regression(
            seed: 23,
            profile: .schema,
            rounds: 60,
            found: "a confirmed record kept the device's value of a column that the zone got later"
        ),
        Regression(
            seed: 55,
            profile: .schema,
            rounds: 60,
            found: "the same, in a record that was replaced before the zone got the column"
        ),
        Regression(
            seed: 8,
            profile: .schema,
            found: "the values of a column that an app did not have were forgotten when it was renamed"
        ),
        Regression(
            seed: 11,
            profile: .schema,
            found: "an app that never had a column refused answers under the column's former name"
        ),
        Regression(
            seed: 6,
            profile: .schema,
            found: "the checker took what was captured of an app's own table for the engine's writing"
        ),
        Regression(
            seed: 26,
            profile: .schema,
            rounds: 40,
            found: "the checker asked the server for columns of a change set that do not travel"
        ),
        Regression(
            seed: 3184,
            rounds: 40,
            found: "the recorder took a new connection for the old one, whose count it happened to have"
        ),
        Regression(
            seed: 7191,
            rounds: 40,
            found: "a new row whose key is its reference kept the temporary id when nothing was rewound"
        ),
        Regression(
            seed: 93_520,
            profile: .schema,
            found: "the checker forgot what only a file had in a row whose own deletion was refused"
        ),
        Regression(
            seed: 96_524,
            profile: .schema,
            found: "what referred to a new record by text did not wait with it when that was refused"
        ),
        Regression(
            seed: 97_148,
            profile: .schema,
            found: "rows of a new table referred to what a waiting edit of the older app had deleted"
        ),
        Regression(
            seed: 102_037,
            rounds: 40,
            found: "a deletion took along what its device had deleted before, in a change set that was refused"
        ),
        Regression(
            seed: 104_356,
            profile: .schema,
            found: "an older edit of a column that only the file had waited on, under a newer one that did not"
        ),
        Regression(
            seed: 104_385,
            profile: .schema,
            found: "a page was told a fingerprint or not, by whether its group was written together"
        ),
        Regression(
            seed: 104_526,
            profile: .schema,
            found: "what a migration filled was not shown until the next answer, where an older edit was hidden"
        ),
        Regression(
            seed: 104_566,
            profile: .schema,
            found: "a record that was committed unanswered was there twice after a delta, and one edit of it was lost"
        ),
        Regression(
            seed: 106_410,
            profile: .crash,
            found: "a large change set of the same group was not held against the bound for a delta"
        ),
        Regression(
            seed: 106_610,
            profile: .network,
            found: "a sync gave up while each delta brought it on, and the zone moved on"
        ),
    ]
}
