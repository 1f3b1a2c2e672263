import NIOCore
import NIOPosix
import Synchronization
import TidemarkCore

/// Many connections that listen to a server's events.
final class EventListeners: Sendable {
    /// When each heard what is waited for.
    typealias Times = [ContinuousClock.Instant]

    private struct State {
        var heard: Times = []
        /// How many are to hear it.
        var wanted = 0
        /// Set once a connection has ended that should not have.
        var lost: TidemarkError?
        var waiting: CheckedContinuation<Times, any Error>?

        /// What there is to tell whoever waits; nil while there is nothing.
        var outcome: Result<Times, any Error>? {
            if let lost { return .failure(lost) }
            return heard.count >= wanted ? .success(heard) : nil
        }
    }

    /// How many connect at a time: more than that wait longer than they would in turn.
    private static let connectingMax = 128

    private let state = Mutex(State())
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let channels = Mutex<[any Channel]>([])

    /// Connects so many, and waits until each has been told what the zone is at.
    func connect(_ count: Int, to port: Int) async throws {
        let request = ByteBuffer(string: "GET /events?device=listener HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        let bootstrap = ClientBootstrap(group: group).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(EventHandler(self)) }
        }
        _ = try await heard(by: count) {
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

    /// Does something of which the zone tells so many listeners, and returns when each has heard.
    func heard(by count: Int, _ work: () async throws -> Void) async throws -> Times {
        change { ($0.heard, $0.wanted) = ([], count) }
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
        change { $0.heard.append(now) }
    }

    fileprivate func lose() {
        change { state in
            guard state.wanted > 0 else { return }
            state.lost = TidemarkError(
                .unreachable,
                "A listener lost its connection, or got none.",
                fix: "Ask for fewer with --listeners, or let the process have more files open."
            )
        }
    }

    /// Changes the state, and tells whoever waits if there is something to tell now.
    private func change(_ body: (inout State) -> Void) {
        let (waiting, outcome) = state.withLock { state in
            body(&state)
            let told = (state.waiting, state.outcome)
            if told.1 != nil { state.waiting = nil }
            return told
        }
        if let outcome { waiting?.resume(with: outcome) }
    }
}

/// Hears the events in the bytes of a stream.
private final class EventHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private static let (status, mark) = (Array("HTTP/1.1 200".utf8), Array("\nid:".utf8))
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
