import Foundation
package import TidemarkGzip

extension GzipFile {
    /// Decompresses `source` to a new file at `target`; `bytesMax` is its largest size.
    package static func decompress(_ source: String, to target: String, bytesMax: Int) throws {
        let gunzip = Gunzip(bytesMax: bytesMax)
        let input = try FileHandle(forReadingFrom: URL(filePath: source))
        try Data().write(to: URL(filePath: target))
        let output = try FileHandle(forWritingTo: URL(filePath: target))
        while let piece = try input.read(upToCount: 256 << 10), !piece.isEmpty {
            gunzip.feed(Array(piece))
            while let block = try gunzip.next() { try output.write(contentsOf: block) }
        }
        try gunzip.finish()
        try output.close()
    }
}
