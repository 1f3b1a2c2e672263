import GRDB
import TidemarkCore

/// What a server said to the question which of this device's change sets it knows.
///
/// Asked before a snapshot of another history is taken in: only the server can say which verdicts
/// never arrived here, and what it has forgotten.
package struct Recall: Sendable {
    /// The history that the answer is about.
    let epoch: String
    /// The verdicts on change sets that wait here, a JSON array as in any answer.
    let changeSets: String

    /// Reads the answer.
    init(_ answer: [UInt8], in db: Database) throws {
        let text = String(decoding: answer, as: UTF8.self)
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT ?1 ->> '$.epoch' AS epoch, ?1 -> '$.changeSets' AS sets
                WHERE json_valid(?1) AND json_type(?1, '$.epoch') = 'text'
                    AND json_type(?1, '$.changeSets') = 'array' AND json_type(?1, '$.known') = 'array'
                """,
            arguments: [text]
        )
        guard let row else {
            throw TidemarkError(
                .invalidResponse,
                "The answer is not Tidemark's.",
                fix: "Nothing was changed. Compare the versions of both sides."
            )
        }
        (epoch, changeSets) = (row["epoch"], row["sets"])
    }
}
