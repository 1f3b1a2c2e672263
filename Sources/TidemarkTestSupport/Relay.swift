internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix

/// A TCP relay that stands for the network between a device and its server, and can be cut.
///
/// ```swift
/// let relay = TCPRelay(targetPort: serverPort)
/// let port = try await relay.start()
/// try await relay.stop()   // every connection is cut, new ones are refused
/// try await relay.start()  // the network is back, on the same port
/// ```
///
/// It knows nothing of what it carries. Safe to use from any task.
public final class TCPRelay: Sendable {
    /// What went through a relay since it was made.
    public struct Traffic: Hashable, Sendable {
        /// The connections accepted.
        public fileprivate(set) var connections = 0
        /// The bytes from clients to the target.
        public fileprivate(set) var bytesUp: Int64 = 0
        /// The bytes from the target to clients.
        public fileprivate(set) var bytesDown: Int64 = 0
    }

    private struct State {
        /// The port asked for; after the first start, the one that was given.
        var port: Int
        var listener: (any Channel)?
        /// The clients' ends; the target's ends close with them.
        var clients: [ObjectIdentifier: any Channel] = [:]
        var traffic = Traffic()
        /// When this many bytes have gone down, every connection is cut and forgotten, once.
        var cutBytesDown: Int64?
    }

    private let host: String
    private let targetHost: String
    private let targetPort: Int
    private let state: NIOLockedValueBox<State>

    /// Makes a relay that does not listen yet.
    ///
    /// - Parameters:
    ///   - host: The address to listen on.
    ///   - port: The port to listen on; 0 takes any that is free, and keeps it from then on.
    ///   - targetHost: The host to forward to.
    ///   - targetPort: The port to forward to.
    public init(
        host: String = "127.0.0.1",
        port: Int = 0,
        targetHost: String = "127.0.0.1",
        targetPort: Int
    ) {
        (self.host, self.targetHost, self.targetPort) = (host, targetHost, targetPort)
        state = NIOLockedValueBox(State(port: port))
    }

    /// What went through since the relay was made.
    public var traffic: Traffic { state.withLockedValue { $0.traffic } }

    /// Listens, and returns the port.
    ///
    /// - Throws: What the system says when it cannot listen there, for instance since the relay has
    ///   been started already.
    @discardableResult
    public func start() async throws -> Int {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(ChannelOptions.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(ChannelOptions.autoRead, value: false)
            .childChannelOption(ChannelOptions.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { client in self.accept(client) }
            .bind(host: host, port: state.withLockedValue { $0.port })
            .get()
        return state.withLockedValue { state in
            state.listener = listener
            state.port = listener.localAddress?.port ?? state.port
            return state.port
        }
    }

    /// Stops listening and cuts every connection, as a network does that goes away.
    ///
    /// - Throws: What the system says when a socket cannot be closed.
    public func stop() async throws {
        let listener = state.withLockedValue { state in
            defer { state.listener = nil }
            return state.listener
        }
        try await listener?.close().get()
        for client in state.withLockedValue({ Array($0.clients.values) }) {
            client.close(promise: nil)
            try await client.closeFuture.get()
        }
    }

    /// Cuts every connection as soon as `bytesDown` bytes in all have gone to clients, and not one
    /// later.
    ///
    /// The relay goes on listening: the next connection lives.
    public func cut(afterBytesDown bytesDown: Int64) {
        state.withLockedValue { $0.cutBytesDown = bytesDown }
    }
}

extension TCPRelay {
    /// Connects a new client to the target; the client's end is closed when that fails.
    private func accept(_ client: any Channel) -> EventLoopFuture<Void> {
        let id = ObjectIdentifier(client)
        state.withLockedValue { state in
            state.clients[id] = client
            state.traffic.connections += 1
        }
        client.closeFuture.whenComplete { _ in
            self.state.withLockedValue { _ = $0.clients.removeValue(forKey: id) }
        }
        return ClientBootstrap(group: client.eventLoop)
            .channelOption(ChannelOptions.autoRead, value: false)
            .channelOption(ChannelOptions.allowRemoteHalfClosure, value: true)
            .connect(host: targetHost, port: targetPort)
            .flatMapThrowing { target in
                let up = RelayHandler(peer: target) { bytes in self.passUp(bytes) }
                let down = RelayHandler(peer: client) { bytes in self.passDown(bytes, to: id) }
                try client.pipeline.syncOperations.addHandler(up)
                try target.pipeline.syncOperations.addHandler(down)
            }
    }

    /// Counts bytes on their way up.
    private func passUp(_ bytes: ByteBuffer) -> ByteBuffer {
        state.withLockedValue { $0.traffic.bytesUp += Int64(bytes.readableBytes) }
        return bytes
    }

    /// Counts bytes on their way down, and keeps back what comes after the cut.
    private func passDown(_ bytes: ByteBuffer, to id: ObjectIdentifier) -> ByteBuffer {
        var passed = bytes
        let cut = state.withLockedValue { state -> [any Channel] in
            guard state.clients[id] != nil else {
                passed.clear()
                return []
            }
            let room = state.cutBytesDown.map { Int($0 - state.traffic.bytesDown) } ?? .max
            passed = passed.readSlice(length: min(max(room, 0), bytes.readableBytes)) ?? passed
            state.traffic.bytesDown += Int64(passed.readableBytes)
            guard bytes.readableBytes >= room else { return [] }
            state.cutBytesDown = nil
            defer { state.clients = [:] }
            return Array(state.clients.values)
        }
        // Later on this event loop, when what is passed on has been written.
        for client in cut { client.eventLoop.execute { client.close(promise: nil) } }
        return passed
    }
}
