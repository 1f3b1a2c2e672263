/// Compresses and decompresses files, in constant memory; these functions block, so call them outside of tasks.
package enum GzipFile {
    private static let readBytes = 256 << 10

    /// Compresses `source` to a file that replaces `target`, or leaves none if it throws; `onWrite` gets the bytes.
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

    /// Decompresses `source` to a file that replaces `target`, or leaves none if it throws; `bytesMax` is its size.
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
