/// Compresses bytes that arrive in pieces, in flat memory.
///
/// ```swift
/// let gzip = Gzip()
/// for piece in pieces {
///     gzip.feed(piece)
///     while let block = gzip.next() { write(block) }
/// }
/// gzip.finish()
/// while let block = gzip.next() { write(block) }
/// ```
public final class Gzip {
    /// The level that balances speed and size, in zlib's own opinion.
    public static let defaultLevel = 6
    /// The largest block that ``next()`` returns, in bytes.
    public static let blockBytesMax = 64 << 10

    private let stream: ZlibStream
    private var isFinishing = false
    private var hasEnded = false

    /// Starts a stream.
    ///
    /// - Parameter level: From 1, the fastest, to 9, which gives the fewest bytes.
    public init(level: Int = Gzip.defaultLevel) {
        precondition((1...9).contains(level), "a gzip level is a number from 1 to 9")
        stream = ZlibStream(.compress(level: level))
    }

    /// Takes the next piece of input.
    public func feed(_ bytes: [UInt8]) {
        precondition(!isFinishing, "no input after finish()")
        stream.feed(bytes)
    }

    /// Says that no more input comes; ``next()`` returns the rest.
    public func finish() { isFinishing = true }

    /// The next compressed block, or nil when more input is needed or everything has been returned.
    public func next() -> [UInt8]? {
        while !hasEnded {
            let (output, outcome) = stream.step(bytesMax: Self.blockBytesMax, finishing: isFinishing)
            if case .ended = outcome { hasEnded = true }
            if !output.isEmpty { return output }
            if !stream.hasInput && !isFinishing { return nil }
        }
        return nil
    }
}

/// Compresses bytes at once.
public func gzip(_ bytes: [UInt8], level: Int = Gzip.defaultLevel) -> [UInt8] {
    let stream = Gzip(level: level)
    stream.feed(bytes)
    stream.finish()
    var output: [UInt8] = []
    while let block = stream.next() { output += block }
    return output
}
