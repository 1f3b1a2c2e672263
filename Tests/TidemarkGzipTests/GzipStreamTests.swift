import Foundation
import Testing
import TidemarkGzip

@Suite struct GzipStreamTests {
    @Test(arguments: [1, 7, 4_096, 300_000]) func `A14: chunks of any size decompress to the same bytes`(
        pieceBytes: Int
    ) throws {
        let bytes = sampleBytes(count: 200_000)
        let compressed = compressInPieces(bytes, pieceBytes: pieceBytes)
        let gunzip = Gunzip(bytesMax: bytes.count)
        var output: [UInt8] = []
        for start in stride(from: 0, to: compressed.count, by: pieceBytes) {
            gunzip.feed(Array(compressed[start...].prefix(pieceBytes)))
            while let block = try gunzip.next() {
                #expect(block.count <= Gunzip.blockBytesMax)
                output += block
            }
        }
        try gunzip.finish()
        #expect(output == bytes)
        #expect(gunzip.byteCount == bytes.count)
    }

    @Test func `a download cut in the middle fails at its end`() throws {
        let compressed = gzip(sampleBytes(count: 200_000))
        let gunzip = Gunzip(bytesMax: 200_000)
        gunzip.feed(Array(compressed.prefix(compressed.count / 2)))
        while try gunzip.next() != nil {}
        #expect(throws: GzipError.truncated) { try gunzip.finish() }
    }

    @Test func `bytes after the end are refused, also in a chunk of their own`() throws {
        let gunzip = Gunzip(bytesMax: 100)
        gunzip.feed(gzip([1, 2, 3]))
        #expect(try gunzip.next() == [1, 2, 3])
        #expect(try gunzip.next() == nil)
        gunzip.feed([0])
        #expect(throws: GzipError.trailingGarbage) { try gunzip.next() }
    }

    @Test func `a file survives compression and decompression`() throws {
        try inTemporaryDirectory { directory in
            let bytes = sampleBytes(count: 1_500_000)
            try Data(bytes).write(to: directory.appending(path: "plain"))
            try GzipFile.compress(directory.path + "/plain", to: directory.path + "/gz")
            let compressed = Array(try Data(contentsOf: directory.appending(path: "gz")))
            #expect(try gunzip(compressed, bytesMax: bytes.count) == bytes)
        }
    }

    @Test func `a missing file is named with the system's reason`() throws {
        try inTemporaryDirectory { directory in
            let missing = directory.path + "/missing"
            let error = #expect(throws: GzipError.self) { try GzipFile.compress(missing, to: directory.path + "/gz") }
            #expect(error?.description == "cannot open \(missing): No such file or directory")
        }
    }

    private func compressInPieces(_ bytes: [UInt8], pieceBytes: Int) -> [UInt8] {
        let gzip = Gzip()
        var compressed: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            gzip.feed(Array(bytes[start...].prefix(pieceBytes)))
            while let block = gzip.next() { compressed += block }
        }
        gzip.finish()
        while let block = gzip.next() { compressed += block }
        return compressed
    }

    private func inTemporaryDirectory(_ body: (URL) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { #expect(throws: Never.self) { try FileManager.default.removeItem(at: directory) } }
        try body(directory)
    }
}
