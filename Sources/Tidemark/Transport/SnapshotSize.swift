internal import TidemarkCore

/// Bounds the size of a snapshot while it is decompressed, so that no answer fills a device's disk.
///
/// A snapshot is a SQLite file, whose first 100 bytes state its size. What has another form stays small.
struct SnapshotSize {
    let address: ServerAddress
    /// The free bytes of the disk; nil if unknown.
    let freeBytes: Int64?
    private var head: [UInt8] = []
    private var bytes: Int64 = 0
    private static let headBytes = 100
    private static let otherBytesMax: Int64 = 64 << 20
    private static let inflatedBytesMin: Int64 = 256 << 20
    /// Compression of rows saves a factor of ten, of equal rows a hundred.
    private static let ratioMax: Int64 = 200

    init(address: ServerAddress, freeBytes: Int64?) {
        self.address = address
        self.freeBytes = freeBytes
    }

    /// Takes the next bytes, `received` compressed ones so far; throws if they must not be written.
    mutating func take(_ block: [UInt8], received: Int64) throws(TidemarkError) {
        let isAtStart = head.count < Self.headBytes
        if isAtStart { head += block.prefix(Self.headBytes - head.count) }
        bytes += Int64(block.count)
        if bytes > Self.inflatedBytesMin, bytes / Self.ratioMax > received {
            throw address.foreign("a snapshot that expands too many times")
        }
        guard let stated = statedBytes else {
            guard bytes <= Self.otherBytesMax else { throw address.foreign("a large file that is no snapshot") }
            return
        }
        if bytes > stated { throw address.foreign("a snapshot that is longer than it says") }
        // The rows go into the device's tables while the file is still there.
        guard isAtStart, let freeBytes, stated > freeBytes / 2 else { return }
        throw TidemarkError(
            .storageFailed,
            "The snapshot has \(stated >> 20) MiB, and the disk has \(freeBytes >> 20) MiB of free space.",
            fix: "Free twice as much as the snapshot has, and try again.")
    }

    /// The size in the header of a SQLite file; nil before it is there, and for another file.
    private var statedBytes: Int64? {
        guard head.count == Self.headBytes, head.starts(with: "SQLite format 3\0".utf8) else { return nil }
        let pageSize = Int64(head[16]) << 8 + Int64(head[17])
        let pages = head[28..<32].reduce(Int64(0)) { $0 << 8 + Int64($1) }
        // The one size that two bytes cannot hold.
        return (pageSize == 1 ? 65_536 : pageSize) * pages
    }
}
