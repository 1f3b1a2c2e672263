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
            seed: 3184,
            rounds: 40,
            found:
                "the recorder took a new connection for the old one, whose count it happened to have"
        ),
    ]
}
