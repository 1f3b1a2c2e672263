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

    /// The most bytes of a string in JSON: as base64 a value is longer by a third, and has its own check.
    package var stringMax: Int { bytesMax > Int.max / 4 ? .max : (bytesMax + 3) / 3 * 4 }
    /// Creates the bound of some limits.
    package init(_ limits: Limits) { bytesMax = limits.valueBytesMax }

    /// Finds the first too large value in a record's attributes, a JSON object.
    ///
    /// Columns in `unsent` do not count.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/malformedRequest`` if the text is no object.
    package func excess(in attributes: UnsafeBufferPointer<UInt8>, unsent: Set<String> = []) throws(TidemarkError)
        -> Excess?
    {
        var reader = try JSONReader(attributes)
        var first: Excess?
        try reader.object { (reader, name) throws(TidemarkError) in
            let bytes = size(of: try reader.cell(), in: reader)
            guard first == nil, bytes > bytesMax, !unsent.contains(reader.text(of: name)) else { return }
            first = Excess(column: reader.text(of: name), bytes: bytes)
        }
        return first
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
    /// Refuses a too large value; the caller adds its place.
    func check(_ cell: Cell, of column: String, in reader: JSONReader) throws(TidemarkError) {
        let bytes = size(of: cell, in: reader)
        if bytes > bytesMax { throw refusal(Excess(column: column, bytes: bytes), at: .init()) }
    }

    /// Refuses a key that is longer than any value.
    func checkKey(_ cell: Cell) throws(TidemarkError) {
        guard cell.range.count > bytesMax else { return }
        throw TidemarkError(
            .tooLarge,
            "A key has \(cell.range.count) bytes; a synced value has at most \(bytesMax).",
            fix: "Give the record a shorter key."
        )
    }

    /// Returns the size of a value in a row, in bytes; 0 for a number or NULL.
    private func size(of cell: Cell, in reader: JSONReader) -> Int {
        switch cell.kind {
        case .text: return cell.range.count
        // Most values are short, and their size is not computed.
        case .escapedText where cell.range.count > bytesMax, .object where cell.range.count > bytesMax:
            do throws(InvalidValue) { return try reader.value(of: cell).byteCount } catch { return 0 }
        default: return 0
        }
    }
}

extension Value {
    /// The size of text or a blob in bytes; 0 for other values.
    fileprivate var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .rawText(let bytes), .blob(let bytes): bytes.count
        case .null, .integer, .real: 0
        }
    }
}
