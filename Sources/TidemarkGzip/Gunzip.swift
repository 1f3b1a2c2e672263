/// Decompresses one gzip stream that arrives in pieces, in flat memory and up to a limit.
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
/// A file of several gzip members is refused as trailing garbage: no sender of ours makes one.
public final class Gunzip {
    /// The largest block that ``next()`` returns, in bytes.
    public static let blockBytesMax = 64 << 10

    /// The decompressed bytes so far.
    public private(set) var byteCount = 0

    private let bytesMax: Int
    private let stream = ZlibStream(.decompress)
    private var hasEnded = false

    /// Starts a stream that may hold at most `bytesMax` decompressed bytes.
    public init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Takes the next piece of input.
    public func feed(_ bytes: [UInt8]) { stream.feed(bytes) }

    /// The next decompressed block, or nil when more input is needed.
    ///
    /// - Throws: ``GzipError`` as soon as the limit is passed, the stream proves to be damaged, or
    ///   bytes follow its end.
    public func next() throws(GzipError) -> [UInt8]? {
        guard !hasEnded else {
            guard !stream.hasInput else { throw .trailingGarbage }
            return nil
        }
        // One byte of room beyond the limit is enough to tell a stream that is too large.
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

    /// Says that no more input comes.
    ///
    /// - Throws: ``GzipError/truncated`` unless the stream has reached its end.
    public func finish() throws(GzipError) { guard hasEnded else { throw .truncated } }
}

/// Decompresses one gzip stream at once.
///
/// - Throws: ``GzipError`` when it would be more than `bytesMax` bytes (refused before more than
///   that is in memory), is truncated or damaged, or is followed by other bytes.
public func gunzip(_ bytes: [UInt8], bytesMax: Int) throws(GzipError) -> [UInt8] {
    let stream = Gunzip(bytesMax: bytesMax)
    stream.feed(bytes)
    var output: [UInt8] = []
    while let block = try stream.next() { output += block }
    try stream.finish()
    return output
}
