import Foundation

/// Writes text and blobs as `Docs/PROTOCOL.md` says.
///
/// This is a second implementation, so that the engine's own code does not judge itself.
enum ValueJSON {
    /// A text that is UTF-8 without NUL.
    static func text(_ bytes: some Sequence<UInt8>) -> String {
        var output = [UInt8(ascii: "\"")]
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): output += [UInt8(ascii: "\\"), byte]
            case ..<0x20: output += Array("\\u00".utf8) + hex(byte)
            default: output.append(byte)
            }
        }
        output.append(UInt8(ascii: "\""))
        return String(decoding: output, as: UTF8.self)
    }

    /// A blob.
    static func blob(_ bytes: some Sequence<UInt8>) -> String { #"{"$blob":"\#(Data(bytes).base64EncodedString())"}"# }

    private static func hex(_ byte: UInt8) -> [UInt8] {
        let digits = String(byte, radix: 16)
        return Array((digits.count == 1 ? "0" + digits : digits).utf8)
    }
}
