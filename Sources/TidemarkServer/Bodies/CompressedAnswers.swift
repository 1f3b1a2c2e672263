internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TidemarkGzip

/// A cache of the latest compressed answers, since thousands of devices get the same answer after a commit.
///
/// It compares all bytes. A task waits for an answer that is being compressed. Safe to use from any task.
final class CompressedAnswers: Sendable {
    typealias Compress = @Sendable (_ json: [UInt8]) -> ByteBuffer

    private let latest: Mutex<LatestByContent<EventLoopFuture<ByteBuffer>>>
    private let eventLoop: any EventLoop
    private let compress: Compress

    init(
        bounds: LatestByContent<EventLoopFuture<ByteBuffer>>.Bounds = .init(),
        compress: @escaping Compress = JSONAnswer.compress
    ) {
        latest = Mutex(LatestByContent(bounds: bounds))
        eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        self.compress = compress
    }

    func compressedBody(for json: [UInt8]) async throws -> ByteBuffer {
        let future = latest.withLock { latest in
            if let future = latest.value(for: json) { return future }
            // Compressing megabytes would block one of the few threads of the cooperative pool.
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

/// A small cache of values by content; it drops the least recently used values.
struct LatestByContent<Value: Sendable>: Sendable {
    struct Bounds: Hashable {
        var countMax = 8
        /// The most bytes of all keys.
        var bytesMax = 4 << 20
    }

    private let bounds: Bounds
    /// The entries; the most recently used is the last.
    private var entries: [(content: [UInt8], value: Value)] = []
    private(set) var bytes = 0
    var count: Int { entries.count }

    init(bounds: Bounds = Bounds()) { self.bounds = bounds }

    mutating func value(for content: [UInt8]) -> Value? {
        guard let index = index(of: content) else { return nil }
        let entry = entries.remove(at: index)
        entries.append(entry)
        return entry.value
    }

    /// Stores a value for these bytes, unless they alone exceed the bounds; drops older values.
    mutating func keep(_ value: Value, for content: [UInt8]) {
        forget(content)
        guard content.count <= bounds.bytesMax else { return }
        entries.append((content, value))
        bytes += content.count
        while entries.count > bounds.countMax || bytes > bounds.bytesMax {
            bytes -= entries.removeFirst().content.count
        }
    }

    mutating func forget(_ content: [UInt8]) {
        guard let index = index(of: content) else { return }
        bytes -= entries.remove(at: index).content.count
    }

    private func index(of content: [UInt8]) -> Int? { entries.lastIndex { Self.isEqual($0.content, content) } }

    /// Compares with `memcmp`, because answers are long.
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
