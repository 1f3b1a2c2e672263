/// Bounds the size of a snapshot while it is decompressed, so that no answer fills a device's disk.
///
/// A snapshot is a SQLite file, whose first 100 bytes state its size. What has another form stays small.
struct SnapshotSize {
    /// A reason to refuse a snapshot, as the words after "answered with".
    enum Fault: Hashable {
        /// It holds more than its header states.
        case longerThanItsHeader
        /// It is no SQLite file, and large.
        case noDatabase
        /// It holds many times what arrived.
        case inflated
        /// The disk has no room for it and for its rows in the device's tables.
        case tooLargeForDisk(bytes: Int64, free: Int64)
    }

    /// The free bytes of the disk; nil if unknown.
    let freeBytes: Int64?
    private var head: [UInt8] = []
    private var bytes: Int64 = 0
    private static let headBytes = 100
    private static let otherBytesMax: Int64 = 64 << 20
    private static let inflatedBytesMin: Int64 = 256 << 20
    /// Compression of rows saves a factor of ten, of equal rows a hundred.
    private static let ratioMax: Int64 = 200

    init(freeBytes: Int64?) { self.freeBytes = freeBytes }

    /// Takes the next bytes, `received` compressed ones so far; returns the fault by which they must not be written.
    mutating func take(_ block: [UInt8], received: Int64) -> Fault? {
        let isAtStart = head.count < Self.headBytes
        if isAtStart { head += block.prefix(Self.headBytes - head.count) }
        bytes += Int64(block.count)
        if bytes > Self.inflatedBytesMin, bytes / Self.ratioMax > received { return .inflated }
        guard let stated = statedBytes else { return bytes > Self.otherBytesMax ? .noDatabase : nil }
        if bytes > stated { return .longerThanItsHeader }
        // The rows go into the device's tables while the file is still there.
        if isAtStart, let freeBytes, stated > freeBytes / 2 { return .tooLargeForDisk(bytes: stated, free: freeBytes) }
        return nil
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
