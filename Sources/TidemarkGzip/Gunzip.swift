/// Decompresses one gzip stream that arrives in pieces, in constant memory and up to a limit.
///
/// ```swift
/// let gunzip = Gunzip(bytesMax: 1 << 30)
/// for piece in pieces {
///     gunzip.feed(piece)
///     while let block = try gunzip.next() { write(block) }
/// }
/// try gunzip.finish()
/// ```
///
/// It refuses a second gzip member as trailing garbage, because Tidemark never sends one.
package final class Gunzip {
    /// The largest block that ``next()`` returns, in bytes.
    package static let blockBytesMax = 64 << 10
    /// The decompressed bytes so far.
    package private(set) var byteCount = 0
    private let bytesMax: Int
    private let stream = ZlibStream(.decompress)
    private var hasEnded = false

    /// Starts a stream that may hold at most `bytesMax` decompressed bytes.
    package init(bytesMax: Int) { self.bytesMax = bytesMax }
    package func feed(_ bytes: [UInt8]) { stream.feed(bytes) }

    /// Returns the next block; nil if it needs more input; throws if the stream is too long, damaged or continued.
    package func next() throws(GzipError) -> [UInt8]? {
        guard !hasEnded else {
            guard !stream.hasInput else { throw .trailingGarbage }
            return nil
        }
        // One byte of room beyond the limit suffices to detect a stream that is too large.
        let room = min(Self.blockBytesMax - 1, bytesMax - byteCount) + 1
        let (output, outcome) = stream.step(bytesMax: room, finishing: false)
        switch outcome {
        case .invalid: throw .corrupt
        case .ended: hasEnded = true
        case .more: break
        }
        byteCount += output.count
        guard byteCount <= bytesMax else { throw .tooLarge(bytesMax: bytesMax) }
        guard output.isEmpty else { return output }
        guard !(hasEnded && stream.hasInput) else { throw .trailingGarbage }
        return nil
    }

    /// Ends the input; throws ``GzipError/truncated`` unless the stream has reached its end.
    package func finish() throws(GzipError) { guard hasEnded else { throw .truncated } }
}

/// Decompresses one gzip stream at once, with at most `bytesMax` bytes and one block in memory.
package func gunzip(_ bytes: [UInt8], bytesMax: Int) throws(GzipError) -> [UInt8] {
    let stream = Gunzip(bytesMax: bytesMax)
    stream.feed(bytes)
    var output: [UInt8] = []
    while let block = try stream.next() { output += block }
    try stream.finish()
    return output
}
