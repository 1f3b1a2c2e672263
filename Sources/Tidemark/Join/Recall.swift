import GRDB
import TidemarkCore
import TidemarkSQLite

/// What a server said to the question which of this device's change sets it knows.
///
/// Asked before a snapshot is taken in, if something was sent of which nothing came back or the
/// history may be another: only the server can say which verdicts never arrived here, and what it
/// has forgotten.
package struct Recall: Sendable {
    /// Whether the file's history may be another than the server's.
    let isAboutOther: Bool
    /// The history that the answer is about.
    let epoch: String
    /// The revision to which the server remembers having brought this device.
    let seen: Int64?
    /// The change sets that were acknowledged and that the server still knows.
    let known: Set<String>
    /// The verdicts on change sets that wait here, a JSON array as in any answer.
    let changeSets: String
    /// Those that became what was sent: of these, no more has come than the ids of new records.
    let asSent: Set<String>
    /// Notes of this device's values that others overruled, a JSON array as in any answer.
    let overruled: String

    /// Reads the answer to a file that is in the history `known`; nil where that is in doubt.
    init(_ answer: [UInt8], known: String?, in db: Database) throws {
        let text = String(decoding: answer, as: UTF8.self)
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT ?1 ->> '$.epoch' AS epoch, ?1 -> '$.changeSets' AS sets,
                    coalesce(?1 -> '$.overruled', '[]') AS overruled,
                    CASE json_type(?1, '$.seen') WHEN 'integer' THEN ?1 ->> '$.seen' END AS seen
                WHERE json_valid(?1) AND json_type(?1, '$.epoch') = 'text'
                    AND json_type(?1, '$.changeSets') = 'array' AND json_type(?1, '$.known') = 'array'
                    AND coalesce(json_type(?1, '$.overruled'), 'array') = 'array'
                    AND (json_type(?1, '$.seen') IS NOT 'integer' OR typeof(?1 ->> '$.seen') = 'integer')
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
        epoch = try row.value("epoch")
        changeSets = try row.value("sets")
        seen = try row.value("seen")
        overruled = try row.value("overruled")
        isAboutOther = known != epoch
        let ids = { (member: String) in
            try String.fetchSet(
                db,
                sql: "SELECT atom FROM json_each(?, ?) WHERE type = 'text'",
                arguments: [text, "$.\(member)"]
            )
        }
        self.known = try ids("known")
        asSent = try ids("asSent")
    }
}
