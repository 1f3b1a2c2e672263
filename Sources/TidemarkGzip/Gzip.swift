/// Compresses bytes that arrive in pieces, in constant memory.
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
package final class Gzip {
    /// zlib's default level, which balances speed and size.
    package static let defaultLevel = 6
    /// The largest block that ``next()`` returns, in bytes.
    package static let blockBytesMax = 64 << 10
    private let stream: ZlibStream
    private var isFinishing = false
    private var hasEnded = false

    /// Starts a stream of a level from 1, the fastest, to 9, the smallest output.
    package init(level: Int = Gzip.defaultLevel) {
        precondition((1...9).contains(level), "a gzip level is a number from 1 to 9")
        stream = ZlibStream(.compress(level: level))
    }

    package func feed(_ bytes: [UInt8]) {
        precondition(!isFinishing, "no input after finish()")
        stream.feed(bytes)
    }

    /// Ends the input; ``next()`` then returns the rest.
    package func finish() { isFinishing = true }

    /// Returns the next compressed block; nil if it needs more input or has returned everything.
    package func next() -> [UInt8]? {
        while !hasEnded {
            let (output, outcome) = stream.step(bytesMax: Self.blockBytesMax, finishing: isFinishing)
            if case .ended = outcome { hasEnded = true }
            if !output.isEmpty { return output }
            if !stream.hasInput && !isFinishing { return nil }
        }
        return nil
    }
}

package func gzip(_ bytes: [UInt8], level: Int = Gzip.defaultLevel) -> [UInt8] {
    let stream = Gzip(level: level)
    stream.feed(bytes)
    stream.finish()
    var output: [UInt8] = []
    while let block = stream.next() { output += block }
    return output
}
