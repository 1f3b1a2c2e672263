import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A foreign web server with one page; it receives the reports of the page's script.
final class PageServer: Sendable {
    private let listener: any Channel
    private let page: Mutex<String>
    private let reports = AsyncStream.makeStream(of: String.self)

    /// Listens on a free port, as 127.0.0.1.
    static func start() async throws -> PageServer {
        let instance = Mutex<PageServer?>(nil)
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).childChannelInitializer {
            channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(Handler(server: instance.withLock { $0 }))
            }
        }
        let server = PageServer(try await bootstrap.bind(host: "127.0.0.1", port: 0).get())
        instance.withLock { $0 = server }
        return server
    }

    private init(_ listener: any Channel) {
        self.listener = listener
        page = Mutex("")
    }

    var port: Int { listener.localAddress?.port ?? 0 }

    /// Serves a page whose asynchronous script returns its report.
    func show(_ script: String) {
        page.withLock {
            $0 = """
                <!doctype html><title>page</title><script>
                (async () => { \(script) })()
                    .then((said) => fetch('/report?' + encodeURIComponent(said)));
                </script>
                """
        }
    }

    /// The page's next report; nil when no page is left.
    func report() async -> String? { await reports.stream.first { _ in true } }

    /// Ends the reports.
    func endReports() { reports.continuation.finish() }

    func stop() async throws { try await listener.close() }

    private func answer(to head: String) -> String {
        let path = head.split(separator: " ").dropFirst().first ?? "/"
        guard !path.hasPrefix("/report?") else {
            reports.continuation.yield(String(path.dropFirst(8)).removingPercentEncoding ?? "")
            return "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
        }
        guard path == "/" else { return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" }
        let text = page.withLock { $0 }
        return "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: \(text.utf8.count)\r\n"
            + "Connection: close\r\n\r\n" + text
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let server: PageServer?
        private var head = ""

        init(server: PageServer?) { self.server = server }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            head += String(buffer: unwrapInboundIn(data))
            guard head.contains("\r\n\r\n"), let server else { return }
            let answer = ByteBuffer(string: server.answer(to: head))
            let channel = context.channel
            context.writeAndFlush(wrapOutboundOut(answer)).whenComplete { _ in channel.close(promise: nil) }
        }
    }
}
