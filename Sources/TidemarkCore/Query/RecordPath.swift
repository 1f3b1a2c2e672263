import Foundation

/// Keys of records as they stand in a path: `7`, `DE`, `DE,SH`.
package enum RecordPath {
    /// Returns the JSON of the key that a path's segment names; a composite key is an array.
    ///
    /// `decode` removes the percent-encoding of a part; the comma between parts is not encoded.
    ///
    /// - Throws: ``ErrorCode/invalidKey`` for a wrong number of parts, or a part that is no valid text.
    package static func key(
        _ segment: some StringProtocol,
        of table: SyncedTable,
        decode: (String) -> String?
    ) throws(TidemarkError) -> String {
        let parts = Substring(segment).split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == table.key.count else {
            throw wrong("has \(parts.count) of \(table.key.count) parts", table)
        }
        var values: [String] = []
        for (name, part) in zip(table.key, parts) {
            guard let column = table.columns.first(where: { $0.name == name }), let text = decode(part),
                !text.utf8.contains(0)
            else { throw wrong("is not valid percent-encoded UTF-8", table) }
            if table.keyKind == .integer, Int64(text).map(String.init) != text { throw wrong("is no integer", table) }
            values.append(PlainValue.json(text, of: column))
        }
        return values.count == 1 ? values[0] : JSONText.array(values)
    }

    /// Returns a key as it stands in a path, from the canonical JSON of its columns.
    package static func text(_ key: [String]) -> String { key.map(part).joined(separator: ",") }

    /// Returns a key as it stands in a path, from its canonical JSON.
    package static func text(canonical key: String, of table: SyncedTable?) -> String {
        guard let table, table.key.count > 1 else { return text([key]) }
        return text(JSONParts.elements(of: key) ?? [key])
    }

    private static func part(_ json: String) -> String {
        let text = json.hasPrefix("\"") ? JSONText.unquote(json) : json
        guard json.hasPrefix("\""), text.hasPrefix(#"{"$"#) else { return encode(text) }
        // A text that begins like a tagged value needs a tag itself.
        return encode(#"{"$text":"\#(Data(text.utf8).base64EncodedString())"}"#)
    }

    /// Returns a text percent-encoded, for one segment of a path.
    package static func encode(_ text: String) -> String {
        guard !text.utf8.allSatisfy(isPlain) else { return text }
        var output = ""
        for byte in text.utf8 {
            if isPlain(byte) {
                output.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                output += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
        return output
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    private static func wrong(_ reason: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .invalidKey,
            "The key of \(table.name) \(reason).",
            fix: "Write \(table.key.joined(separator: ",")), each part percent-encoded.",
            place: .init(table: table.name)
        )
    }
}
