import GRDB
import GRDBSQLite
import TidemarkCore

/// Adds `tidemark_cut(value, characters)`: the canonical JSON of a value, but of a longer text or any longer blob only
/// its beginning.
///
/// A cut value is `{"$cut":{"type":"text","length":5000000,"start":"..."}}`, with the length in bytes; a blob has no
/// `start`. A page that shows rows to people does not load megabytes that nobody sees.
enum CutValues {
    static func register(on db: Database) throws {
        try SQLFunctions.add("tidemark_cut", count: 2, to: db) { context, _, values in
            SQLFunctions.result(context, CutValues.cut(values?[0], to: Int(sqlite3_value_int64(values?[1]))))
        }
    }

    private static func cut(_ value: OpaquePointer?, to charactersMax: Int) -> [UInt8] {
        var output: [UInt8] = []
        let type = sqlite3_value_type(value)
        if type == SQLITE_TEXT {
            let text = CanonicalJSON.bytes(sqlite3_value_text(value), of: value)
            if text.count > charactersMax, let end = end(of: charactersMax, in: text) {
                output += #"{"$cut":{"type":"text","length":\#(text.count),"start":"#.utf8
                JSONText.append(text: UnsafeBufferPointer(rebasing: text[..<end]), to: &output)
                output += "}}".utf8
                return output
            }
        } else if type == SQLITE_BLOB, sqlite3_value_bytes(value) > charactersMax {
            return Array(#"{"$cut":{"type":"blob","length":\#(sqlite3_value_bytes(value))}}"#.utf8)
        }
        CanonicalJSON.append(value, to: &output)
        return output
    }

    /// The place after the first characters; nil if there are no more than these.
    private static func end(of characters: Int, in text: UnsafeBufferPointer<UInt8>) -> Int? {
        var count = 0
        for index in text.indices where text[index] & 0xC0 != 0x80 {
            if count == characters { return index }
            count += 1
        }
        return nil
    }
}
