import NIOCore
import NIOPosix
import Synchronization
import TidemarkCore

/// Many connections that listen to a server's events.
final class EventListeners: Sendable {
    /// The times at which each heard the awaited event.
    typealias Times = [ContinuousClock.Instant]

    private struct State {
        var arrivals: Times = []
        /// The number of listeners that must hear it.
        var wanted = 0
        /// Set if a connection has ended too early.
        var failure: TidemarkError?
        var waiting: CheckedContinuation<Times, any Error>?

        /// The result for the waiting task; nil while there is none.
        var outcome: Result<Times, any Error>? {
            if let failure { return .failure(failure) }
            return arrivals.count >= wanted ? .success(arrivals) : nil
        }
    }

    /// How many connect at a time: a larger number waits longer than it would in turn.
    private static let connectingMax = 128

    private let state = Mutex(State())
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let channels = Mutex<[any Channel]>([])

    /// Connects a number of listeners, and waits until each has the zone's present state.
    func connect(_ count: Int, to port: Int) async throws {
        let request = ByteBuffer(string: "GET /events?device=listener HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        let bootstrap = ClientBootstrap(group: group).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(EventHandler(self)) }
        }
        _ = try await awaitEvent(by: count) {
            for first in stride(from: 0, to: count, by: Self.connectingMax) {
                let connecting = (first..<min(first + Self.connectingMax, count)).map { _ in
                    bootstrap.connect(host: "127.0.0.1", port: port)
                }
                for connection in connecting {
                    let channel = try await connection.get()
                    channels.withLock { $0.append(channel) }
                    try await channel.writeAndFlush(request).get()
                }
            }
        }
    }

    /// Runs a job whose news go to a number of listeners, and returns when each has heard them.
    func awaitEvent(by count: Int, _ work: () async throws -> Void) async throws -> Times {
        change { state in
            state.arrivals = []
            state.wanted = count
        }
        try await work()
        return try await withCheckedThrowingContinuation { continuation in change { $0.waiting = continuation } }
    }

    /// Hangs up.
    func end() async throws {
        change { $0.wanted = 0 }
        for channel in channels.withLock({ $0 }) { try await channel.close().get() }
        try await group.shutdownGracefully()
    }

    fileprivate func hear() {
        let now = ContinuousClock.now
        change { $0.arrivals.append(now) }
    }

    fileprivate func lose() {
        change { state in
            guard state.wanted > 0 else { return }
            state.failure = TidemarkError(
                .unreachable, "A listener lost its connection, or got none.",
                fix: "Ask for fewer with --listeners, or let the process have more files open.")
        }
    }

    /// Changes the state, and resumes the waiting task if there is a result.
    private func change(_ body: (inout State) -> Void) {
        let (waiting, outcome) = state.withLock { state in
            body(&state)
            let wakeup = (state.waiting, state.outcome)
            if wakeup.1 != nil { state.waiting = nil }
            return wakeup
        }
        if let outcome { waiting?.resume(with: outcome) }
    }
}

/// Finds the events in the bytes of a stream.
private final class EventHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private static let status = Array("HTTP/1.1 200".utf8)
    private static let mark = Array("\nid:".utf8)
    private let listeners: EventListeners
    private var hasBegun = false
    private var matched = 0

    init(_ listeners: EventListeners) { self.listeners = listeners }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data).readableBytesView
        if !hasBegun, !bytes.starts(with: Self.status) { return listeners.lose() }
        hasBegun = true
        for byte in bytes {
            matched = byte == Self.mark[matched] ? matched + 1 : byte == Self.mark[0] ? 1 : 0
            guard matched == Self.mark.count else { continue }
            matched = 0
            listeners.hear()
        }
    }

    func channelInactive(context: ChannelHandlerContext) { listeners.lose() }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
