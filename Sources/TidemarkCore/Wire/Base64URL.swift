import Foundation

/// Base64 for URLs, without padding (RFC 4648, section 5; RFC 7515, section 2).
package enum Base64URL {
    package static func text(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// Decodes a text; nil for other characters, padding, or bits that no encoder writes: a token has one spelling.
    package static func bytes(_ text: some StringProtocol) -> [UInt8]? {
        var characters: [UInt8] = []
        characters.reserveCapacity(text.utf8.count + 3)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): characters.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): characters.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            default: characters.append(byte)
            }
        }
        while characters.count % 4 != 0 { characters.append(UInt8(ascii: "=")) }
        guard let data = Data(base64Encoded: Data(characters)),
            data.base64EncodedData().elementsEqual(characters)
        else { return nil }
        return Array(data)
    }
}
