/// Reads JSON as text: members and elements by their positions, and values unparsed.
///
/// This is a second, small reader, so that the engine's reader does not judge itself.
enum JSONText {
    typealias Text = ArraySlice<UInt8>

    /// The members of an object, in order.
    static func members(_ object: Text) -> [(name: String, value: Text)] {
        var members = [(name: String, value: Text)]()
        var at = object.startIndex
        guard next(object, &at) == UInt8(ascii: "{") else { return [] }
        at += 1
        while let byte = next(object, &at), byte == UInt8(ascii: "\"") {
            let name = value(object, &at)
            _ = next(object, &at)
            at += 1
            members.append((string(name), value(object, &at)))
            guard next(object, &at) == UInt8(ascii: ",") else { break }
            at += 1
        }
        return members
    }

    /// The elements of an array, in order.
    static func elements(_ array: Text) -> [Text] {
        var elements = [Text]()
        var at = array.startIndex
        guard next(array, &at) == UInt8(ascii: "[") else { return [] }
        at += 1
        while let byte = next(array, &at), byte != UInt8(ascii: "]") {
            elements.append(value(array, &at))
            guard next(array, &at) == UInt8(ascii: ",") else { break }
            at += 1
        }
        return elements
    }

    /// The text as a `String`.
    static func raw(_ text: Text) -> String { String(decoding: text, as: UTF8.self) }

    /// The content of a string, or the text of anything else.
    static func string(_ text: Text) -> String {
        guard text.first == UInt8(ascii: "\"") else { return raw(text) }
        let content = text.dropFirst().dropLast()
        guard content.contains(UInt8(ascii: "\\")) else { return raw(content) }
        var bytes = [UInt8]()
        var rest = content
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let escape = rest.popFirst() else {
                bytes.append(byte)
                continue
            }
            switch escape {
            case UInt8(ascii: "u"):
                let code = UInt32(raw(rest.prefix(4)), radix: 16) ?? 0xFFFD
                rest = rest.dropFirst(4)
                bytes += Array(String(Unicode.Scalar(code) ?? "\u{FFFD}").utf8)
            case UInt8(ascii: "n"): bytes.append(0x0A)
            case UInt8(ascii: "r"): bytes.append(0x0D)
            case UInt8(ascii: "t"): bytes.append(0x09)
            case UInt8(ascii: "b"): bytes.append(0x08)
            case UInt8(ascii: "f"): bytes.append(0x0C)
            default: bytes.append(escape)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The next byte that is no white space; `at` is its position.
    private static func next(_ text: Text, _ at: inout Int) -> UInt8? {
        while at < text.endIndex, text[at] <= 0x20 { at += 1 }
        return at < text.endIndex ? text[at] : nil
    }

    /// The value at `at`; moves `at` behind it.
    private static func value(_ text: Text, _ at: inout Int) -> Text {
        _ = next(text, &at)
        let start = at
        var depth = 0
        var isInString = false
        while at < text.endIndex {
            let byte = text[at]
            if isInString {
                if byte == UInt8(ascii: "\\") { at += 1 }
                if byte == UInt8(ascii: "\"") { isInString = false }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    if depth == 0 { return text[start..<at] }
                    depth -= 1
                case UInt8(ascii: ","), UInt8(ascii: ":"): if depth == 0 { return text[start..<at] }
                default: break
                }
            }
            at += 1
        }
        return text[start..<min(at, text.endIndex)]
    }
}
