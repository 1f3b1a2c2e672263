package import TidemarkCore

/// The largest value of a column that a device sends and a server accepts.
///
/// Reading, parsing and writing keep several copies of a value in memory. The bound applies to
/// requests only: a larger value in the served rows still reaches every device.
package struct ValueBound: Sendable {
    /// A value that is too large.
    package struct Excess: Hashable, Sendable {
        /// The column.
        package let column: String
        /// The size of the value in a row, in bytes.
        package let bytes: Int
    }

    /// The largest size of a value in a row, in bytes.
    package let bytesMax: Int

    /// Creates the bound of some limits.
    package init(_ limits: Limits) { bytesMax = limits.valueBytesMax }

    /// Finds the first too large value in a record's attributes, a JSON object without white space.
    ///
    /// Columns in `unsent` do not count.
    package func excess(in attributes: UnsafeBufferPointer<UInt8>, unsent: Set<String> = []) -> Excess? {
        excess(at: 0, of: attributes, unsent: unsent)
    }

    /// Creates the error for a too large value.
    package func refusal(_ excess: Excess, at place: TidemarkError.Place) -> TidemarkError {
        var place = place
        place.column = excess.column
        return TidemarkError(
            .tooLarge,
            """
            The value of \(excess.column) has \(excess.bytes) bytes; a synced value has at most \(bytesMax), \
            since it is in memory several times.
            """,
            fix: """
                Keep it in a file beside the database and sync the file's path, or raise the limit at the server and \
                on every device.
                """,
            place: place
        )
    }
}

extension ValueBound {
    /// Refuses a piece of attributes with a too large value.
    func check(_ piece: BodyOutline.Piece, of body: UnsafeBufferPointer<UInt8>) throws(TidemarkError) {
        guard piece.content.count > bytesMax else { return }
        let walk = JSONWalk(body)
        var start = piece.content.lowerBound
        while piece.content.contains(start), let name = walk.value(at: start) {
            if let excess = excess(at: name.upperBound + 1, of: body) {
                let place = TidemarkError.Place(
                    changeSet: piece.ord,
                    table: walk.text(piece.table),
                    key: Self.key(of: body[name], walk.text(name))
                )
                throw refusal(excess, at: place)
            }
            guard let record = walk.value(at: name.upperBound + 1) else { return }
            start = record.upperBound + 1
        }
    }

    /// Refuses a body with a string that is too long for a value in any form.
    ///
    /// ``check(_:of:)`` does not read all bodies, for instance not those with white space.
    func check(longestString bytes: Int) throws(TidemarkError) {
        // Base64 is longer by a third.
        guard bytes / 4 * 3 > bytesMax else { return }
        throw TidemarkError(
            .tooLarge,
            "A string in the body has \(bytes) bytes; a synced value has at most \(bytesMax).",
            fix: "Keep large values in files beside the database and sync the files' paths."
        )
    }

    private func excess(at start: Int, of json: UnsafeBufferPointer<UInt8>, unsent: Set<String> = []) -> Excess? {
        let walk = JSONWalk(json)
        var firstExcess: Excess?
        _ = walk.members(of: start) { name, value in
            guard let range = walk.value(at: value) else { return nil }
            if firstExcess == nil, range.count > bytesMax, !unsent.contains(walk.text(name)) {
                let bytes = Self.byteCount(json[range])
                if bytes > bytesMax { firstExcess = Excess(column: walk.text(name), bytes: bytes) }
            }
            return range
        }
        return firstExcess
    }

    /// Returns the size of a value in a row, in bytes.
    private static func byteCount(_ value: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
        guard value.first == UInt8(ascii: "{") else { return textByteCount(value.dropFirst()) }
        return Base64.byteCount(value.dropFirst(DecodedValue.tagLength).dropLast(2)) ?? 0
    }

    /// Returns the length of a string's text up to its closing quote, in bytes.
    private static func textByteCount(_ string: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
        var count = -1
        var place = string.startIndex
        while place < string.endIndex {
            let isEscape = string[place] == UInt8(ascii: "\\")
            let isLong = isEscape && string[place...].dropFirst().first == UInt8(ascii: "u")
            count += 1
            place += isLong ? 6 : isEscape ? 2 : 1
        }
        return count
    }

    /// Returns the canonical key of a record from the name of its attributes.
    private static func key(of name: Slice<UnsafeBufferPointer<UInt8>>, _ text: String) -> String {
        let isInteger = Int64(text) != nil
        return isInteger ? text : String(decoding: name, as: UTF8.self)
    }
}
