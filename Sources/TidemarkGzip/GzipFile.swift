/// Compresses and decompresses files, in flat memory.
///
/// These functions block: call them from a thread that may, never from a task.
public enum GzipFile {
    /// The bytes read at once.
    private static let readBytes = 256 << 10

    /// Compresses the file at `source` into a file at `target`, replacing one that is there.
    ///
    /// `wrote` is told the compressed bytes in order, to be hashed for instance.
    ///
    /// - Throws: ``GzipError/fileFailed(operation:path:reason:)``; nothing is left at `target`
    ///   then.
    public static func compress(
        _ source: String,
        to target: String,
        level: Int = Gzip.defaultLevel,
        wrote: (_ bytes: [UInt8]) -> Void = { _ in }
    ) throws(GzipError) {
        try pipe(source, to: target) { (input, output) throws(GzipError) in
            let gzip = Gzip(level: level)
            while let piece = try input.read(bytesMax: readBytes) {
                gzip.feed(piece)
                try empty(gzip, into: output, wrote: wrote)
            }
            gzip.finish()
            try empty(gzip, into: output, wrote: wrote)
        }
    }

    private static func empty(_ gzip: Gzip, into output: RawFile, wrote: (_ bytes: [UInt8]) -> Void) throws(GzipError) {
        while let block = gzip.next() {
            try output.write(block)
            wrote(block)
        }
    }

    /// Decompresses the file at `source` into a file at `target`, replacing one that is there.
    ///
    /// - Throws: ``GzipError``, for more than `bytesMax` bytes too; nothing is left at `target`
    ///   then.
    public static func decompress(_ source: String, to target: String, bytesMax: Int) throws(GzipError) {
        try pipe(source, to: target) { (input, output) throws(GzipError) in
            let gunzip = Gunzip(bytesMax: bytesMax)
            while let piece = try input.read(bytesMax: readBytes) {
                gunzip.feed(piece)
                while let block = try gunzip.next() { try output.write(block) }
            }
            try gunzip.finish()
        }
    }

    /// Runs `body` between two files, and removes the new one when it fails.
    private static func pipe(
        _ source: String,
        to target: String,
        body: (_ input: RawFile, _ output: RawFile) throws(GzipError) -> Void
    ) throws(GzipError) {
        let input = try RawFile(reading: source)
        let output = try RawFile(replacing: target)
        do throws(GzipError) {
            try body(input, output)
            try output.close()
        } catch {
            output.remove()
            throw error
        }
    }
}
