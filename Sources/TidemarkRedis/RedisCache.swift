import Dispatch
import Foundation
package import Logging
import Synchronization
import TidemarkCore
import TidemarkGzip
package import TidemarkStore

/// The change sets that servers share in a Redis or Valkey, each under its epoch, zone and
/// revision, as compressed JSON.
///
/// One connection on a thread of its own. Every wait for it is short, and after a failure it is
/// left alone for a while, so a Redis that is gone, stopped or full costs a moment now and then.
/// Safe to use from any task.
package final class RedisCache: SharedChangeSets {
    /// The longest wait for one answer, in milliseconds.
    private static let patience = 200
    /// The longest that one lookup may take, with all its answers.
    private static let lookupMax = Duration.seconds(1)
    /// How many change sets are asked for at a time.
    private static let batch = 100
    /// The most bytes of a change set that is kept there.
    private static let bytesMax = 1 << 20
    /// How long a change set is kept there, in seconds.
    private static let lifetime = 86_400
    /// How many offers may wait to be sent; later ones are dropped.
    private static let offersMax = 16

    private struct State {
        var pause = Pause()
        var offers = 0
    }

    private let address: RedisAddress
    private let logger: Logger
    private let queue = DispatchQueue(label: "tidemark.redis")
    private let state = Mutex(State())
    private let line = Line()

    /// The connection, which the queue alone uses.
    private final class Line: @unchecked Sendable {
        // Only read and written on the cache's serial queue.
        var connection: RedisConnection?
    }

    /// Makes a cache; nothing is connected before it is needed.
    package init(_ address: RedisAddress, logger: Logger) {
        self.address = address
        self.logger = logger
        RedisConnection.ignoreBrokenPipes()
    }

    package func changeSets(_ range: ClosedRange<Int64>, of zone: SharedZone) async -> [RecentChangeSet] {
        guard isUsable else { return [] }
        return await withCheckedContinuation { continuation in
            queue.async { [self] in
                let found = attempt { try fetch(range, zone, $0) }
                continuation.resume(returning: found ?? [])
            }
        }
    }

    package func keep(_ run: [RecentChangeSet], of zone: SharedZone) {
        let isTaken = state.withLock { state in
            guard state.pause.isOver, state.offers < Self.offersMax else { return false }
            state.offers += 1
            return true
        }
        guard isTaken else { return }
        queue.async { [self] in
            _ = attempt { try store(run, zone, $0) }
            state.withLock { $0.offers -= 1 }
        }
    }

    // MARK: On the queue

    private func fetch(_ range: ClosedRange<Int64>, _ zone: SharedZone, _ connection: RedisConnection) throws
        -> [RecentChangeSet]
    {
        let start = ContinuousClock.now
        var found: [RecentChangeSet] = []
        // Latest first: the end is of use without the beginning.
        var last = range.upperBound
        while last >= range.lowerBound, ContinuousClock.now - start < Self.lookupMax {
            let first = max(range.lowerBound, last - Int64(Self.batch) + 1)
            let keys = (first...last).map { Self.key($0, zone) }
            guard case .array(let replies) = try connection.run(["MGET"] + keys) else { break }
            let part = try replies.map(Self.decoded)
            let whole = part.compactMap { $0 }
            guard whole.count == keys.count else { break }
            found = whole + found
            last = first - 1
        }
        return found
    }

    private func store(_ run: [RecentChangeSet], _ zone: SharedZone, _ connection: RedisConnection) throws {
        let small = run.filter { $0.body.utf8.count <= Self.bytesMax }
        for entry in small {
            let value = gzip(Array(try JSONEncoder().encode(entry)))
            try connection.send([
                Array("SET".utf8), Array(Self.key(entry.revision, zone).utf8), value, Array("EX".utf8),
                Array("\(Self.lifetime)".utf8),
            ])
        }
        for _ in small { _ = try connection.receive() }
    }

    private static func key(_ revision: Int64, _ zone: SharedZone) -> String {
        "tidemark:\(zone.epoch):\(zone.zone):\(zone.schema.prefix(16)):\(revision)"
    }

    /// What somebody has put there; nil when it is nothing that can be read.
    private static func decoded(_ reply: RedisConnection.Reply) throws -> RecentChangeSet? {
        guard case .bytes(let bytes) = reply else { return nil }
        do {
            let json = try gunzip(bytes, bytesMax: 4 * bytesMax)
            return try JSONDecoder().decode(RecentChangeSet.self, from: Data(json))
        } catch is GzipError { return nil } catch is DecodingError { return nil }
    }

    // MARK: Outages

    private var isUsable: Bool { state.withLock(\.pause.isOver) }

    /// Runs `body` on the connection, which is made first if there is none; nil when that failed.
    private func attempt<Result>(_ body: (RedisConnection) throws -> Result) -> Result? {
        guard isUsable else { return nil }
        do {
            let connection = try line.connection ?? RedisConnection(address, milliseconds: Self.patience)
            line.connection = connection
            let result = try body(connection)
            if state.withLock({ $0.pause.end() }) {
                logger.info("Redis is back", metadata: ["address": "\(address.place)"])
            }
            return result
        } catch {
            line.connection = nil
            if state.withLock({ $0.pause.begin() }) {
                logger.warning(
                    "Redis does not answer; it is done without",
                    metadata: ["address": "\(address.place)", "error": "\(error)"]
                )
            }
            return nil
        }
    }
}

/// How long something that failed is left alone: longer each time.
struct Pause {
    private var until: ContinuousClock.Instant?
    private var length = Duration.zero

    var isOver: Bool { until.map { ContinuousClock.now >= $0 } ?? true }

    /// Notes a failure; returns whether it is the first one.
    mutating func begin() -> Bool {
        let isFirst = length == .zero
        length = isFirst ? .seconds(1) : min(length * 2, .seconds(30))
        until = .now + length
        return isFirst
    }

    /// Notes a success; returns whether there was a failure before it.
    mutating func end() -> Bool {
        defer { self = Pause() }
        return length != .zero
    }
}
