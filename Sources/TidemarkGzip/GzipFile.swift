/// Compresses and decompresses files, in constant memory.
///
/// These functions block: call them on a thread that may block, never in a task.
package enum GzipFile {
    /// The size of one read, in bytes.
    private static let readBytes = 256 << 10

    /// Compresses the file at `source` into a file at `target`, replacing any existing file.
    ///
    /// `onWrite` gets the compressed bytes in order, for instance to hash them.
    ///
    /// - Throws: ``GzipError/fileFailed(operation:path:reason:)``; then no file is left at `target`.
    package static func compress(
        _ source: String, to target: String, level: Int = Gzip.defaultLevel,
        onWrite: (_ bytes: [UInt8]) -> Void = { _ in }
    ) throws(GzipError) {
        try pipe(source, to: target) { (input, output) throws(GzipError) in
            let gzip = Gzip(level: level)
            while let piece = try input.read(bytesMax: readBytes) {
                gzip.feed(piece)
                try drain(gzip, into: output, onWrite: onWrite)
            }
            gzip.finish()
            try drain(gzip, into: output, onWrite: onWrite)
        }
    }

    private static func drain(_ gzip: Gzip, into output: RawFile, onWrite: (_ bytes: [UInt8]) -> Void) throws(GzipError)
    {
        while let block = gzip.next() {
            try output.write(block)
            onWrite(block)
        }
    }

    /// Decompresses the file at `source` into a file at `target`, replacing any existing file.
    ///
    /// - Throws: ``GzipError``, also for more than `bytesMax` bytes; then no file is left at `target`.
    package static func decompress(_ source: String, to target: String, bytesMax: Int) throws(GzipError) {
        try pipe(source, to: target) { (input, output) throws(GzipError) in
            let gunzip = Gunzip(bytesMax: bytesMax)
            while let piece = try input.read(bytesMax: readBytes) {
                gunzip.feed(piece)
                while let block = try gunzip.next() { try output.write(block) }
            }
            try gunzip.finish()
        }
    }

    /// Opens both files, runs `body`, and removes the new file if that fails.
    private static func pipe(
        _ source: String, to target: String, body: (_ input: RawFile, _ output: RawFile) throws(GzipError) -> Void
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
