internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix

/// A TCP relay that stands for the network between a device and its server.
///
/// ```swift
/// let relay = TCPRelay(targetPort: serverPort)
/// let port = try await relay.start()
/// try await relay.stop()   // every connection is cut, new ones are refused
/// try await relay.start()  // the network is back, on the same port
/// ```
///
/// A ``RelayPlan`` decides all other faults of its connections. The relay does not interpret the
/// bytes. Safe to use from any task.
public final class TCPRelay: Sendable {
    /// The traffic of a relay since it was made.
    public struct Traffic: Hashable, Sendable {
        /// The connections accepted.
        public fileprivate(set) var connections = 0
        /// The bytes from clients to the target.
        public fileprivate(set) var bytesUp: Int64 = 0
        /// The bytes from the target to clients.
        public fileprivate(set) var bytesDown: Int64 = 0
        /// The faults of plans that have struck.
        public fileprivate(set) var faults = 0
    }

    private struct State {
        /// The requested port; after the first start, the actual one.
        var port: Int
        var listener: (any Channel)?
        /// The open connections by their number; the target's ends close with the clients'.
        var links: [Int: RelayLink] = [:]
        var traffic = Traffic()
        var plan = RelayPlan()
        /// The number of the first connection of the plan, and the faults before it.
        var planStart = 0
        var faultsBefore = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let host: String
    private let targetHost: String
    private let targetPort: Int
    private let delay: TimeAmount
    private let state: NIOLockedValueBox<State>

    /// Makes a relay that does not listen yet.
    ///
    /// - Parameters:
    ///   - host: The address to listen on.
    ///   - port: The port to listen on; 0 takes any that is free, and keeps it from then on.
    ///   - targetHost: The host to forward to.
    ///   - targetPort: The port to forward to.
    ///   - roundTrip: The time of a way there and back; making a connection takes one.
    public init(
        host: String = "127.0.0.1", port: Int = 0, targetHost: String = "127.0.0.1", targetPort: Int,
        roundTrip: Duration = .zero
    ) {
        self.host = host
        self.targetHost = targetHost
        self.targetPort = targetPort
        delay = TimeAmount(roundTrip / 2)
        state = NIOLockedValueBox(State(port: port))
    }

    /// The traffic since the relay was made.
    public var traffic: Traffic { state.withLockedValue { $0.traffic } }

    /// Listens, and returns the port.
    ///
    /// - Throws: The system's error if the relay cannot listen there, for instance because it has
    /// been started already.
    @discardableResult public func start() async throws -> Int {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).serverChannelOption(
            ChannelOptions.socketOption(.so_reuseaddr), value: 1
        ).childChannelOption(ChannelOptions.autoRead, value: false).childChannelOption(
            ChannelOptions.allowRemoteHalfClosure, value: true
        ).childChannelInitializer { client in self.accept(client) }.bind(
            host: host, port: state.withLockedValue { $0.port }
        ).get()
        return state.withLockedValue { state in
            state.listener = listener
            state.port = listener.localAddress?.port ?? state.port
            return state.port
        }
    }

    /// Stops listening and cuts every connection, as a network does that goes away.
    ///
    /// - Throws: The system's error if a socket cannot be closed.
    public func stop() async throws {
        let listener = state.withLockedValue { state in
            defer { state.listener = nil }
            return state.listener
        }
        try await listener?.close().get()
        for link in state.withLockedValue({ Array($0.links.values) }) {
            link.client.close(promise: nil)
            try await link.client.closeFuture.get()
        }
    }

    /// Applies a plan to the connections from the next one on.
    public func follow(_ plan: RelayPlan) {
        state.withLockedValue { state in
            state.plan = plan
            state.planStart = state.traffic.connections
            state.faultsBefore = state.traffic.faults
        }
    }

    /// Waits until a fault of the plan has struck.
    public func fault() async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLockedValue { state in
                if state.traffic.faults > state.faultsBefore { return true }
                state.waiting.append(continuation)
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    /// Hangs up on every connection; the relay accepts new ones.
    public func hangUp() {
        for link in state.withLockedValue({ Array($0.links.values) }) { link.client.close(promise: nil) }
    }

    /// Releases all held bytes.
    ///
    /// Returns when they are sent, and the requests of clients that are gone are answered.
    public func release() async throws {
        for link in state.withLockedValue({ Array($0.links.values) }) { try await link.release() }
    }
}

extension TCPRelay {
    /// Connects a new client to the target; the client's end is closed if that fails.
    private func accept(_ client: any Channel) -> EventLoopFuture<Void> {
        let (number, fault) = state.withLockedValue { state in
            defer { state.traffic.connections += 1 }
            let number = state.traffic.connections
            return (number, state.plan.fault(of: number - state.planStart))
        }
        let link = RelayLink(client, fault: fault, delay: delay) { event in self.note(event, of: number) }
        state.withLockedValue { $0.links[number] = link }
        client.closeFuture.whenComplete { _ in
            // Held bytes go their way later, with or without the client.
            guard !link.isHolding else { return }
            self.state.withLockedValue { _ = $0.links.removeValue(forKey: number) }
        }
        if case .reply(let reply) = fault {
            return client.eventLoop.makeCompletedFuture {
                try client.pipeline.syncOperations.addHandler(
                    CannedReplyHandler(reply) { self.note(.struck, of: number) })
            }
        }
        let isDoubled = fault == .doubled
        return connect(on: client.eventLoop).flatMap { target in
            guard isDoubled else {
                return client.eventLoop.makeCompletedFuture { try link.connect(to: target, mirror: nil) }
            }
            return self.connect(on: client.eventLoop).flatMapThrowing { mirror in
                try link.connect(to: target, mirror: mirror)
                // Discards the bytes from the mirror.
                mirror.setOption(.autoRead, value: true).whenComplete { _ in mirror.read() }
                self.note(.struck, of: number)
            }
        }
    }

    private func connect(on eventLoop: any EventLoop) -> EventLoopFuture<any Channel> {
        let connect = { @Sendable in
            ClientBootstrap(group: eventLoop).channelOption(ChannelOptions.autoRead, value: false).channelOption(
                ChannelOptions.allowRemoteHalfClosure, value: true
            ).connect(host: self.targetHost, port: self.targetPort)
        }
        guard delay > .zero else { return connect() }
        // The way there and back before the first byte.
        return eventLoop.flatScheduleTask(in: delay * 2, connect).futureResult
    }

    /// Counts an event, releases overtaken connections, and resumes tasks that wait for a fault.
    private func note(_ event: RelayLink.Event, of number: Int) {
        let (overtaken, waiting) = state.withLockedValue { state in
            switch event {
            case .passed(.up, let count): state.traffic.bytesUp += Int64(count)
            case .struck:
                state.traffic.faults += 1
                defer { state.waiting = [] }
                return ([RelayLink](), state.waiting)
            case .passed(.down, let count):
                state.traffic.bytesDown += Int64(count)
                let waiting = state.links.filter {
                    $0.key < number && state.plan.fault(of: $0.key - state.planStart) == .overtaken
                }
                return (Array(waiting.values), [])
            }
            return ([], [])
        }
        for continuation in waiting { continuation.resume() }
        for link in overtaken { link.releaseSoon() }
    }
}
