internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TidemarkGzip

/// The latest answers that were compressed: after a commit thousands of devices miss the same, and
/// what they all get is compressed once.
///
/// An answer is known by its own bytes, all of which are compared, so nobody gets anything but what
/// the service said. Safe to use from any task; whoever comes while an answer is being compressed
/// waits for that.
final class CompressedAnswers: Sendable {
    typealias Compress = @Sendable (_ json: [UInt8]) -> ByteBuffer

    private let latest: Mutex<LatestByContent<EventLoopFuture<ByteBuffer>>>
    private let eventLoop: any EventLoop
    private let compress: Compress

    /// Makes one that holds nothing.
    init(
        bounds: LatestByContent<EventLoopFuture<ByteBuffer>>.Bounds = .init(),
        compress: @escaping Compress = JSONAnswer.compress
    ) {
        latest = Mutex(LatestByContent(bounds: bounds))
        eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        self.compress = compress
    }

    /// An answer, compressed.
    func compressed(_ json: [UInt8]) async throws -> ByteBuffer {
        let future = latest.withLock { latest in
            if let known = latest.value(for: json) { return known }
            // Compressing megabytes takes a while, and the tasks' own threads are few.
            let future = NIOThreadPool.singleton.runIfActive(eventLoop: eventLoop) { [compress] in compress(json) }
            latest.keep(future, for: json)
            return future
        }
        do { return try await future.get() } catch {
            latest.withLock { $0.forget(json) }
            throw error
        }
    }
}

/// Values by the bytes that they belong to; of more than a few, those that were used last.
struct LatestByContent<Value: Sendable>: Sendable {
    /// How much is kept.
    struct Bounds: Hashable {
        /// The most values.
        var countMax = 8
        /// The most bytes that they belong to.
        var bytesMax = 4 << 20
    }

    private let bounds: Bounds
    /// The one that was used last stands last.
    private var entries: [(content: [UInt8], value: Value)] = []
    /// The bytes of what is kept.
    private(set) var bytes = 0

    /// How many are kept.
    var count: Int { entries.count }

    /// Makes one that holds nothing.
    init(bounds: Bounds = Bounds()) { self.bounds = bounds }

    /// The value for these bytes, if it is here.
    mutating func value(for content: [UInt8]) -> Value? {
        guard let index = index(of: content) else { return nil }
        let entry = entries.remove(at: index)
        entries.append(entry)
        return entry.value
    }

    /// Keeps a value for these bytes, unless they alone are too many, and drops what goes beyond
    /// the bounds.
    mutating func keep(_ value: Value, for content: [UInt8]) {
        forget(content)
        guard content.count <= bounds.bytesMax else { return }
        entries.append((content, value))
        bytes += content.count
        while entries.count > bounds.countMax || bytes > bounds.bytesMax {
            bytes -= entries.removeFirst().content.count
        }
    }

    /// Drops what is kept for these bytes.
    mutating func forget(_ content: [UInt8]) {
        guard let index = index(of: content) else { return }
        bytes -= entries.remove(at: index).content.count
    }

    private func index(of content: [UInt8]) -> Int? { entries.lastIndex { Self.isEqual($0.content, content) } }

    /// Compares as the machine does, not byte by byte: answers are long.
    private static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        return left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                guard let left = left.baseAddress, let other = right.baseAddress else { return true }
                return memcmp(left, other, right.count) == 0
            }
        }
    }
}
