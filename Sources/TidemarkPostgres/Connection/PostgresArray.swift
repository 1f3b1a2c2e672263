/// Array literals of PostgreSQL.
enum PostgresArray {
    static func quoted(_ texts: [String]) -> String { nullable(texts) }
    static func numbers(_ numbers: [Int64]) -> String { "{\(numbers.map(String.init).joined(separator: ","))}" }

    /// Quotes and escapes the elements; nil becomes NULL.
    static func nullable(_ texts: [String?]) -> String {
        var bytes = [UInt8(ascii: "{")]
        bytes.reserveCapacity(texts.reduce(2) { $0 + ($1?.utf8.count ?? 4) + 3 })
        for (index, text) in texts.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            guard let text else {
                bytes += "NULL".utf8
                continue
            }
            bytes.append(UInt8(ascii: "\""))
            for byte in text.utf8 {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
                bytes.append(byte)
            }
            bytes.append(UInt8(ascii: "\""))
        }
        bytes.append(UInt8(ascii: "}"))
        return String(decoding: bytes, as: UTF8.self)
    }
}
