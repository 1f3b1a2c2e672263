/// The pattern of `like`, in which `*` stands for any text; a match takes at most two steps a byte, in both stores.
package struct TextPattern: Hashable, Sendable {
    package static let charactersMax = 256
    /// The number of steps after which a match asks whether to go on.
    package static let stepsPerPause = 1 << 16
    /// The texts around each `*`; one of them if the pattern has no `*`.
    package let parts: [String]
    private let searches: [Search]

    package init(_ text: String) {
        let scalars = text.unicodeScalars
        parts = scalars.split(separator: "*", omittingEmptySubsequences: false).map { String($0) }
        searches = parts.map { Search($0) }
    }

    /// Whether a value can fit at one place only, so that no search is needed: `abc` and `abc*`.
    package var isAnchored: Bool { parts.count == 1 || (parts.count == 2 && parts[1].isEmpty) }

    /// Returns whether a text in UTF-8 fits; an error of `pause`, called after ``stepsPerPause`` steps, ends the match.
    package func matches<Failure: Error>(_ text: UnsafeBufferPointer<UInt8>, pause: () throws(Failure) -> Void)
        throws(Failure) -> Bool
    {
        guard let first = searches.first, let last = searches.last, searches.count > 1 else {
            return text.elementsEqual(searches.first?.bytes ?? [])
        }
        guard text.count >= first.bytes.count + last.bytes.count, text.starts(with: first.bytes),
            text.suffix(last.bytes.count).elementsEqual(last.bytes)
        else { return false }
        var steps = 0
        var start = first.bytes.count
        for search in searches.dropFirst().dropLast() {
            let rest = start..<(text.count - last.bytes.count)
            guard let end = try search.end(in: text, rest, steps: &steps, pause: pause) else { return false }
            start = end
        }
        return true
    }

    /// The search for one part, by the algorithm of Knuth, Morris and Pratt.
    private struct Search: Hashable, Sendable {
        let bytes: [UInt8]
        /// For each prefix, the length of the longest other prefix with which it ends.
        private let borders: [Int]

        init(_ text: String) {
            bytes = Array(text.utf8)
            var borders = Array(repeating: 0, count: bytes.count)
            var length = 0
            for index in bytes.indices.dropFirst() {
                while length > 0, bytes[index] != bytes[length] { length = borders[length - 1] }
                if bytes[index] == bytes[length] { length += 1 }
                borders[index] = length
            }
            self.borders = borders
        }

        /// Returns the end of the first place where the part stands in a range of a text.
        func end<Failure: Error>(
            in text: UnsafeBufferPointer<UInt8>, _ range: Range<Int>, steps: inout Int,
            pause: () throws(Failure) -> Void
        ) throws(Failure) -> Int? {
            guard !bytes.isEmpty else { return range.lowerBound }
            var matched = 0
            for index in range {
                let byte = text[index]
                while matched > 0, bytes[matched] != byte {
                    matched = borders[matched - 1]
                    steps += 1
                }
                if bytes[matched] == byte { matched += 1 }
                steps += 1
                if matched == bytes.count { return index + 1 }
                guard steps >= TextPattern.stepsPerPause else { continue }
                steps = 0
                try pause()
            }
            return nil
        }
    }
}
