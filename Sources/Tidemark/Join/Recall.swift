import TidemarkCore

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
    init(_ answer: [UInt8], fileEpoch: String?) throws(TidemarkError) {
        var epoch: String?
        var seen: Int64?
        var changeSets: String?
        var known: Set<String>?
        var unchanged: Set<String> = []
        var overruled = "[]"
        do throws(TidemarkError) {
            try answer.withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
                var reader = try JSONReader(bytes)
                try reader.object { (reader, name) throws(TidemarkError) in
                    let cell = try reader.cell()
                    switch (reader.text(of: name), cell.kind) {
                    case ("epoch", _): epoch = reader.plainText(of: cell)
                    case ("seen", .integer):
                        seen = reader.integer(in: cell.range)
                        if seen == nil { throw Answer.foreign }
                    case ("changeSets", .array): changeSets = reader.jsonText(of: cell)
                    case ("known", .array): known = Self.ids(in: reader.jsonText(of: cell))
                    case ("asSent", .array): unchanged = Self.ids(in: reader.jsonText(of: cell))
                    case ("overruled", .array): overruled = reader.jsonText(of: cell)
                    case ("overruled", _): throw Answer.foreign
                    default: break
                    }
                }
                try reader.finish()
            }
        } catch { throw Answer.foreign }
        guard let epoch, let changeSets, let known else { throw Answer.foreign }
        self.init(
            isAboutOther: fileEpoch != epoch, epoch: epoch, lastRevision: seen, knownIDs: known, changeSets: changeSets,
            unchangedIDs: unchanged, overruled: overruled)
    }

    private static func ids(in json: String) -> Set<String> {
        Set((JSONParts.elements(of: json) ?? []).filter { $0.hasPrefix("\"") }.map(JSONText.unquote))
    }
}
