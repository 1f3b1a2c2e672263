/// Encodes and decodes base64; Foundation's functions copy a blob of megabytes several times.
package enum Base64 {
    package static func append(_ bytes: UnsafeBufferPointer<UInt8>, to output: inout [UInt8]) {
        reserve((bytes.count + 2) / 3 * 4, in: &output)
        var place = 0
        while place + 3 <= bytes.count {
            let first = bytes[place]
            let second = bytes[place + 1]
            let third = bytes[place + 2]
            output.append(letters[Int(first >> 2)])
            output.append(letters[Int((first & 3) << 4 | second >> 4)])
            output.append(letters[Int((second & 15) << 2 | third >> 6)])
            output.append(letters[Int(third & 63)])
            place += 3
        }
        guard place < bytes.count else { return }
        let first = bytes[place]
        let isLast = place + 1 == bytes.count
        let second = isLast ? 0 : bytes[place + 1]
        output.append(letters[Int(first >> 2)])
        output.append(letters[Int((first & 3) << 4 | second >> 4)])
        output.append(isLast ? padding : letters[Int((second & 15) << 2)])
        output.append(padding)
    }

    /// Decodes a text; nil if it is not base64 with padding.
    package static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard let count = byteCount(text) else { return nil }
        var output: [UInt8] = []
        output.reserveCapacity(count)
        var bits: UInt32 = 0
        let end = text.count - text.suffix(2).count(where: { $0 == padding })
        for place in 0..<end {
            let value = values[Int(text[place])]
            guard value < 64 else { return nil }
            bits = bits << 6 | UInt32(value)
            guard place % 4 == 3 else { continue }
            output.append(UInt8(truncatingIfNeeded: bits >> 16))
            output.append(UInt8(truncatingIfNeeded: bits >> 8))
            output.append(UInt8(truncatingIfNeeded: bits))
        }
        switch end % 4 {
        case 2: output.append(UInt8(truncatingIfNeeded: bits >> 4))
        case 3:
            output.append(UInt8(truncatingIfNeeded: bits >> 10))
            output.append(UInt8(truncatingIfNeeded: bits >> 2))
        default: break
        }
        return output
    }

    /// Computes the decoded size from the length and the padding; nil if they are invalid.
    package static func byteCount(_ text: some Collection<UInt8>) -> Int? {
        guard text.count % 4 == 0 else { return nil }
        // The last but one character may be padding only if the last one is.
        let end = Array(text.suffix(2))
        if end.first == padding, end.last != padding { return nil }
        return text.count / 4 * 3 - end.count(where: { $0 == padding })
    }

    /// Reserves memory for `count` more bytes, if they are many.
    private static func reserve(_ count: Int, in output: inout [UInt8]) {
        guard count > 1 << 10 else { return }
        output.reserveCapacity(output.count + count + 16)
    }

    private static let padding = UInt8(ascii: "=")
    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 255, count: 256)
        for (value, letter) in letters.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }()
}
