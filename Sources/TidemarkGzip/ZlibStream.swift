internal import CZlib

/// One zlib stream with its unconsumed input; a class, because zlib keeps a pointer to its `z_stream`.
final class ZlibStream {
    enum Direction {
        case compress(level: Int)
        case decompress
    }

    enum Outcome {
        /// zlib needs more input or more room for output.
        case more
        case ended
        /// The input is not a valid stream.
        case invalid
    }

    /// A window of 32 KiB with a gzip header and trailer, in zlib's encoding.
    private static let gzipWindowBits: Int32 = 15 + 16
    /// The compressor's memory level, from 1 to 9; this is zlib's default.
    private static let memoryLevel: Int32 = 8
    private let stream: UnsafeMutablePointer<z_stream>
    private let direction: Direction
    private var input: [UInt8] = []
    private var consumed = 0

    init(_ direction: Direction) {
        self.direction = direction
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let size = Int32(MemoryLayout<z_stream>.size)
        let code =
            switch direction {
            case .compress(let level):
                deflateInit2_(
                    stream, Int32(level), Z_DEFLATED, Self.gzipWindowBits, Self.memoryLevel, Z_DEFAULT_STRATEGY,
                    ZLIB_VERSION, size)
            case .decompress: inflateInit2_(stream, Self.gzipWindowBits, ZLIB_VERSION, size)
            }
        precondition(code == Z_OK, "zlib cannot start (\(code)): no memory, or another zlib")
    }

    deinit {
        switch direction {
        case .compress: deflateEnd(stream)
        case .decompress: inflateEnd(stream)
        }
        stream.deinitialize(count: 1)
        stream.deallocate()
    }

    var hasInput: Bool { consumed < input.count }

    func feed(_ bytes: [UInt8]) {
        input = hasInput ? Array(input[consumed...]) + bytes : bytes
        consumed = 0
    }

    /// Consumes input and produces at most `bytesMax` bytes of output.
    func step(bytesMax: Int, finishing: Bool) -> (output: [UInt8], outcome: Outcome) {
        var code = Z_OK
        let output = [UInt8](unsafeUninitializedCapacity: bytesMax) { buffer, count in
            code = input.withUnsafeBufferPointer { pending in step(from: pending, into: buffer, finishing: finishing) }
            count = bytesMax - Int(stream.pointee.avail_out)
        }
        return switch code {
        case Z_OK, Z_BUF_ERROR: (output, .more)
        case Z_STREAM_END: (output, .ended)
        default: (output, .invalid)
        }
    }

    /// Points zlib at both buffers, runs it once, and clears the pointers.
    private func step(
        from pending: UnsafeBufferPointer<UInt8>, into output: UnsafeMutableBufferPointer<UInt8>, finishing: Bool
    ) -> Int32 {
        let available = UInt32(clamping: pending.count - consumed)
        stream.pointee.next_in = pending.baseAddress.map { UnsafeMutablePointer(mutating: $0 + consumed) }
        stream.pointee.avail_in = available
        stream.pointee.next_out = output.baseAddress
        stream.pointee.avail_out = UInt32(clamping: output.count)
        defer {
            consumed += Int(available - stream.pointee.avail_in)
            stream.pointee.next_in = nil
            stream.pointee.next_out = nil
        }
        switch direction {
        case .compress: return deflate(stream, finishing ? Z_FINISH : Z_NO_FLUSH)
        case .decompress: return inflate(stream, Z_NO_FLUSH)
        }
    }
}
