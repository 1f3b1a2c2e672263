/// The id of a change set: a UUID, which makes a retry harmless.
package enum ChangeSetID {
    /// Whether a text is a UUID: 32 hexadecimal digits with four hyphens.
    package static func isValid(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        return bytes.indices.allSatisfy { place in
            switch bytes[place] {
            case UInt8(ascii: "-"): hyphens.contains(place)
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                UInt8(ascii: "A")...UInt8(ascii: "F"):
                !hyphens.contains(place)
            default: false
            }
        }
    }

    private static let hyphens = [8, 13, 18, 23]
}
