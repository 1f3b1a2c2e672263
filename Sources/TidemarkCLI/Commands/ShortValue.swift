import Foundation

/// Cuts long values, so that a table of them stays readable.
enum ShortValue {
    /// The most characters of a text that is shown whole.
    private static let wholeMax = 60

    /// Returns a value of an image for people: its JSON, or the beginning and the length of a long one.
    static func text(_ value: Any, json: String) -> String {
        if let blob = (value as? [String: Any])?["$blob"] as? String, let data = Data(base64Encoded: blob) {
            return json.count <= wholeMax ? json : "blob, \(Counted.text(data.count, "byte"))"
        }
        guard json.count > wholeMax else { return json }
        guard let text = value as? String else { return "\(json.prefix(wholeMax))…" }
        return "\(json.prefix(wholeMax))…\", \(Counted.text(text.count, "character"))"
    }
}
