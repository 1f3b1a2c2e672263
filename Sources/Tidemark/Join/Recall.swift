import GRDB
import TidemarkCore
import TidemarkSQL

/// The server's answer to the recall request: which of this device's change sets it knows.
///
/// The device sends that request before it applies a snapshot, if it has unanswered change sets or the history may have
/// changed. Only the server knows which verdicts got lost and which change sets it has forgotten.
package struct Recall: Hashable, Sendable {
    /// Whether the file's history may differ from the server's.
    let isAboutOther: Bool
    /// The history that the answer is about.
    let epoch: String
    /// The last revision that the server remembers sending to this device.
    let lastRevision: Int64?
    /// The acknowledged change sets that the server still knows.
    let knownIDs: Set<String>
    /// The verdicts on pending change sets, a JSON array as in any answer.
    let changeSets: String
    /// The accepted change sets whose effect equals their content; the answer holds only their new ids.
    let unchangedIDs: Set<String>
    /// The notes of this device's overruled values, a JSON array as in any answer.
    let overruled: String
}

extension Recall {
    /// Reads the answer for a file in the history `fileEpoch`; nil if that history is in doubt.
    init(_ answer: [UInt8], fileEpoch: String?, in db: Database) throws {
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
                """, arguments: [text])
        guard let row else {
            throw TidemarkError(
                .invalidResponse, "The answer is not Tidemark's.",
                fix: "Nothing was changed. Compare the versions of both sides.")
        }
        epoch = try row.value("epoch")
        changeSets = try row.value("sets")
        lastRevision = try row.value("seen")
        overruled = try row.value("overruled")
        isAboutOther = fileEpoch != epoch
        let ids = { (member: String) in
            try String.fetchSet(
                db, sql: "SELECT atom FROM json_each(?, ?) WHERE type = 'text'", arguments: [text, "$.\(member)"])
        }
        knownIDs = try ids("known")
        unchangedIDs = try ids("asSent")
    }
}
