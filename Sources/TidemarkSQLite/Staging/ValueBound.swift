package import TidemarkCore

/// The largest value of a column that a device sends and a server takes.
///
/// A value lies in memory whole, and several times over while it is read, parsed and written. The
/// bound is about what is sent: a larger value that is at the server already reaches every device.
package struct ValueBound: Sendable {
    /// A value that is too large.
    package struct Excess: Hashable, Sendable {
        /// The column.
        package let column: String
        /// What the value takes in a row, in bytes.
        package let bytes: Int
    }

    /// The most bytes that a value may take in a row.
    package let bytesMax: Int

    /// Makes the bound of some limits.
    package init(_ limits: Limits) { bytesMax = limits.valueBytesMax }

    /// The first value that is too large in a record's attributes, a JSON object without white
    /// space; columns that are not sent do not count.
    package func excess(in attributes: UnsafeBufferPointer<UInt8>, unsent: Set<String> = []) -> Excess? {
        excess(at: 0, of: attributes, unsent: unsent)
    }

    /// The refusal of a value.
    package func refusal(_ excess: Excess, at place: TidemarkError.Place) -> TidemarkError {
        var place = place
        place.column = excess.column
        return TidemarkError(
            .tooLarge,
            "The value of \(excess.column) has \(excess.bytes) bytes; one that is synced has at most \(bytesMax), since it lies in memory several times.",
            fix:
                "Keep it in a file beside the database and sync the file's path, or raise the limit at the server and on every device.",
            place: place
        )
    }
}

extension ValueBound {
    /// Refuses a long part of some attributes in which a value is too large.
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

    /// Refuses a body with a string so long that no value may have it in any form.
    ///
    /// What ``check(_:of:)`` does not look into, for instance a body with white space, is parsed
    /// by SQLite as it is.
    func check(longestString bytes: Int) throws(TidemarkError) {
        // Base64 is longer by a third.
        guard bytes / 4 * 3 > bytesMax else { return }
        throw TidemarkError(
            .tooLarge,
            "A string in the body has \(bytes) bytes; a value that is synced has at most \(bytesMax).",
            fix: "Keep what is so large in a file beside the database and sync the file's path."
        )
    }

    private func excess(at start: Int, of json: UnsafeBufferPointer<UInt8>, unsent: Set<String> = []) -> Excess? {
        let walk = JSONWalk(json)
        var found: Excess?
        _ = walk.members(of: start) { name, value in
            guard let range = walk.value(at: value) else { return nil }
            if found == nil, range.count > bytesMax, !unsent.contains(walk.text(name)) {
                let bytes = Self.byteCount(json[range])
                if bytes > bytesMax { found = Excess(column: walk.text(name), bytes: bytes) }
            }
            return range
        }
        return found
    }

    /// What a value takes in a row, in bytes.
    private static func byteCount(_ value: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
        guard value.first == UInt8(ascii: "{") else { return textByteCount(value.dropFirst()) }
        return Base64.byteCount(value.dropFirst(DecodedValue.tagLength).dropLast(2)) ?? 0
    }

    /// The bytes of a string's text, up to its closing quote.
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

    /// A record's key in canonical JSON, as the name of its attributes says it: a key that is no
    /// number and no list stands there as text.
    private static func key(of name: Slice<UnsafeBufferPointer<UInt8>>, _ text: String) -> String {
        let isInteger = Int64(text) != nil
        return isInteger ? text : String(decoding: name, as: UTF8.self)
    }
}
