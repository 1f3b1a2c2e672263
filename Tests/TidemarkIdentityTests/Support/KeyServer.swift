import NIOCore
import NIOPosix
import Synchronization

/// An identity provider's web server: real HTTP, and answers that a test changes.
final class KeyServer: Sendable {
    /// The behaviour of the server.
    enum Answer: Sendable {
        /// Answers with the body and status 200.
        case body([UInt8])
        /// Answers with another status line and more headers.
        case status(String, headers: [String] = [])
        /// Takes the request and never answers.
        case silence
        /// Answers when the test says so.
        case held([UInt8])
    }

    private struct State {
        var answer: Answer
        var requests = 0
        var held: [@Sendable () -> Void] = []
        var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let listener: Mutex<(any Channel)?> = Mutex(nil)
    private let state: Mutex<State>

    /// Runs `body` beside a server.
    static func run(_ answer: Answer, body: (KeyServer) async throws -> Void) async throws {
        let server = KeyServer(answer)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).childChannelInitializer {
            channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(Handler(server))
            }
        }.bind(host: "127.0.0.1", port: 0).get()
        server.listener.withLock { $0 = channel }
        let result: Result<Void, any Error>
        do { result = .success(try await body(server)) } catch { result = .failure(error) }
        try await server.close()
        try result.get()
    }

    private init(_ answer: Answer) { state = Mutex(State(answer: answer)) }

    /// The address of the keys.
    var url: String { "http://127.0.0.1:\(listener.withLock { $0?.localAddress?.port } ?? 0)/keys" }

    /// The number of requests so far.
    var requests: Int { state.withLock { $0.requests } }

    /// Changes the answer of later requests.
    func answer(_ answer: Answer) { state.withLock { $0.answer = answer } }

    /// Stops listening, as a provider that is down.
    func close() async throws {
        let channel = listener.withLock { listener in
            defer { listener = nil }
            return listener
        }
        try await channel?.close()
    }

    /// Returns when this many requests have arrived.
    func arrival(of count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.requests < count { state.watchers.append((count, continuation)) }
                return state.requests >= count
            }
            if isThere { continuation.resume() }
        }
    }

    /// Answers the held requests.
    func release() {
        let held = state.withLock { state in
            defer { state.held = [] }
            return state.held
        }
        for answer in held { answer() }
    }

    private func take(_ channel: any Channel) {
        let (answer, watchers) = state.withLock { state in
            state.requests += 1
            let due = state.watchers.filter { $0.count <= state.requests }.map(\.continuation)
            state.watchers.removeAll { $0.count <= state.requests }
            if case .held(let body) = state.answer {
                state.held.append { Self.send("200 OK", [], body, on: channel) }
            }
            return (state.answer, due)
        }
        switch answer {
        case .body(let body): Self.send("200 OK", [], body, on: channel)
        case .status(let status, let headers): Self.send(status, headers, [], on: channel)
        case .silence, .held: break
        }
        for watcher in watchers { watcher.resume() }
    }

    private static func send(_ status: String, _ headers: [String], _ body: [UInt8], on channel: any Channel) {
        let head = ["HTTP/1.1 \(status)", "Content-Length: \(body.count)", "Connection: close"] + headers
        var buffer = ByteBuffer(string: head.joined(separator: "\r\n") + "\r\n\r\n")
        buffer.writeBytes(body)
        channel.writeAndFlush(buffer).whenComplete { _ in channel.close(promise: nil) }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let server: KeyServer
        private var head = ""

        init(_ server: KeyServer) { self.server = server }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            head += String(buffer: unwrapInboundIn(data))
            guard head.contains("\r\n\r\n") else { return }
            head = ""
            server.take(context.channel)
        }
    }
}
