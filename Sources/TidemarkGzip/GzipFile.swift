/// Compresses files, in constant memory; the function blocks, so call it outside of tasks.
package enum GzipFile {
    private static let readBytes = 256 << 10

    /// Compresses `source` to a file that replaces `target`, or leaves none if it throws; `onWrite` gets the bytes.
    package static func compress(
        _ source: String, to target: String, level: Int = Gzip.defaultLevel,
        onWrite: (_ bytes: [UInt8]) -> Void = { _ in }
    ) throws(GzipError) {
        let input = try RawFile(reading: source)
        let output = try RawFile(replacing: target)
        do throws(GzipError) {
            let gzip = Gzip(level: level)
            while let piece = try input.read(bytesMax: readBytes) {
                gzip.feed(piece)
                try drain(gzip, into: output, onWrite: onWrite)
            }
            gzip.finish()
            try drain(gzip, into: output, onWrite: onWrite)
            try output.close()
        } catch {
            output.remove()
            throw error
        }
    }

    private static func drain(_ gzip: Gzip, into output: RawFile, onWrite: (_ bytes: [UInt8]) -> Void) throws(GzipError)
    {
        while let block = gzip.next() {
            try output.write(block)
            onWrite(block)
        }
    }
}
