import Testing

@testable import TidemarkGzip

/// Bytes that compress a little, the same ones in every run.
func sampleBytes(count: Int) -> [UInt8] {
    var state: UInt64 = 0x5EED
    return (0..<count).map { index in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return index % 3 == 0 ? UInt8(truncatingIfNeeded: state >> 33) : UInt8(index % 7)
    }
}

@Suite struct GzipTests {
    @Test(arguments: [0, 1, 1_023, 65_536, 65_537, 1_000_000])
    func `A14: bytes of any length survive compression and decompression`(count: Int) throws {
        let bytes = sampleBytes(count: count)
        let compressed = gzip(bytes)
        #expect(try gunzip(compressed, bytesMax: count) == bytes)
        #expect(Array(compressed.prefix(2)) == [0x1F, 0x8B])
    }

    @Test(arguments: 1...9) func `A14: every compression level restores the same bytes`(level: Int) throws {
        let bytes = sampleBytes(count: 100_000)
        #expect(try gunzip(gzip(bytes, level: level), bytesMax: 100_000) == bytes)
    }

    @Test func `A14: repetitive JSON shrinks to a small part of its size`() {
        let json = Array(String(repeating: #"{"id":1,"name":"Kiel"},"#, count: 10_000).utf8)
        #expect(gzip(json).count < json.count / 50)
    }

    @Test func `a stream cut at any byte is reported as truncated, never returned in part`() {
        let compressed = gzip(Array("a device that goes into a tunnel".utf8))
        for count in 0..<compressed.count {
            #expect(throws: GzipError.truncated, "cut after \(count) bytes") {
                try gunzip(Array(compressed[..<count]), bytesMax: 1_000)
            }
        }
    }

    @Test func `a stream with one changed byte is refused or unchanged in content`() {
        let bytes = Array("the bytes arrive as they were sent".utf8)
        let compressed = gzip(bytes)
        var refused = 0
        for index in compressed.indices {
            var damaged = compressed
            damaged[index] ^= 0x10
            do throws(GzipError) {
                // The header's time and system, and padding bits, carry no content.
                let output = try gunzip(damaged, bytesMax: 1_000)
                #expect(output == bytes, "changed at \(index)")
            } catch { refused += 1 }
        }
        #expect(refused > bytes.count)
    }

    @Test func `bytes that are not gzip are refused as corrupt`() {
        #expect(throws: GzipError.corrupt) { try gunzip(Array("<html>please log in</html>".utf8), bytesMax: 1_000) }
    }

    @Test(arguments: [[UInt8(0)], Array("junk".utf8), gzip(Array("a second member".utf8))])
    func `bytes after the end of the stream are refused`(garbage: [UInt8]) {
        #expect(throws: GzipError.trailingGarbage) {
            try gunzip(gzip(Array("content".utf8)) + garbage, bytesMax: 1_000)
        }
    }

    @Test func `a body of exactly the limit is accepted`() throws {
        let bytes = sampleBytes(count: 70_000)
        let compressed = gzip(bytes)
        #expect(try gunzip(compressed, bytesMax: 70_000) == bytes)
        #expect(throws: GzipError.tooLarge(bytesMax: 69_999)) { try gunzip(compressed, bytesMax: 69_999) }
        #expect(throws: GzipError.tooLarge(bytesMax: 0)) { try gunzip(compressed, bytesMax: 0) }
        #expect(try gunzip(compressed, bytesMax: .max) == bytes)
    }

    @Test func `a gzip bomb is refused one byte after the limit`() {
        let bomb = gzip([UInt8](repeating: 0, count: 32 << 20), level: 9)
        #expect(bomb.count < 64 << 10)
        let gunzip = Gunzip(bytesMax: 100_000)
        gunzip.feed(bomb)
        #expect(throws: GzipError.tooLarge(bytesMax: 100_000)) { while try gunzip.next() != nil {} }
        #expect(gunzip.byteCount == 100_001)
    }
}
