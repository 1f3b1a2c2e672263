import TidemarkTestSupport

/// Random UUIDs, the same in every run, and their places in a message.
struct RandomKeys: Sendable {
    /// The keys as text, in lower case.
    let texts: [String]
    /// Their 16 bytes, by their text.
    private let bytes: [[UInt8]: [UInt8]]

    private static let textLength = 36
    private static let hyphen = UInt8(ascii: "-")

    /// Draws a number of keys.
    init(_ count: Int) {
        var generator = SeededGenerator(seed: 1)
        let keys = (0..<count).map { _ in
            (0..<16).map { index -> UInt8 in
                let byte = UInt8.random(in: .min ... .max, using: &generator)
                // Version 4, variant 1.
                return index == 6 ? 0x40 | byte & 0x0f : index == 8 ? 0x80 | byte & 0x3f : byte
            }
        }
        texts = keys.map(Self.text)
        bytes = Dictionary(uniqueKeysWithValues: zip(texts.map { Array($0.utf8) }, keys))
    }

    /// Replaces each key of a message by a text made from its 16 bytes, and counts the keys.
    func replaced(in message: [UInt8], by other: ([UInt8]) -> [UInt8]) -> (message: [UInt8], count: Int) {
        var result = [UInt8]()
        var count = 0
        var index = 0
        result.reserveCapacity(message.count)
        while index < message.count {
            let end = index + Self.textLength
            if end <= message.count, message[index + 8] == Self.hyphen, let key = bytes[Array(message[index..<end])] {
                result += other(key)
                count = count + 1
                index = end
            } else {
                result.append(message[index])
                index += 1
            }
        }
        return (result, count)
    }

    private static func text(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef")
        return bytes.enumerated().reduce(into: "") { text, item in
            if [4, 6, 8, 10].contains(item.offset) { text.append("-") }
            text.append(digits[Int(item.element >> 4)])
            text.append(digits[Int(item.element & 15)])
        }
    }
}
