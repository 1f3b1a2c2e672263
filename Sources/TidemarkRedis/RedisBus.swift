import Foundation
package import TidemarkCore
package import TidemarkStore

/// How nodes tell each other what they have committed by way of Redis, instead of PostgreSQL.
///
/// One connection hears and another tells, both on one thread: a connection that has subscribed can
/// do nothing else. Redis has one set of channels for all of its databases, so the database's
/// number is in the channel's name.
package final class RedisBus: NodeBus {
    /// The longest silence before the connection is tried, in milliseconds.
    private static let silenceMax: Int32 = 10_000
    /// The longest wait for an answer, in milliseconds.
    private static let patience = 2_000

    private let address: RedisAddress
    private let thread = BusThread()

    /// Makes a bus that has not begun.
    package init(_ address: RedisAddress) {
        self.address = address
        RedisConnection.ignoreBrokenPipes()
    }

    package func start(_ hear: @escaping @Sendable (NodeNews) -> Void) {
        thread.start { [self] isConnected in
            let listener = try RedisConnection(address, milliseconds: Self.patience)
            let speaker = try RedisConnection(address, milliseconds: Self.patience)
            _ = try listener.run(["SUBSCRIBE", channel])
            isConnected()
            var isTried = false
            while !thread.isStopped {
                if wait(for: listener) {
                    isTried = false
                } else if isTried {
                    throw RedisFailure(message: "no answer")
                } else {
                    try listener.send([Array("PING".utf8)])
                    try listener.flush()
                    isTried = true
                }
                for message in try listener.arrived() { if let news = Self.news(message) { hear(news) } }
                for revision in thread.takePending() {
                    _ = try speaker.run(["PUBLISH", channel, NodeNews.message(revision)])
                }
            }
        }
    }

    package func tell(_ revision: ZoneRevision) { thread.tell(revision) }

    package func stop() { thread.stop() }

    // MARK: Private

    private var channel: String { "tidemark:\(address.database)" }

    /// Whether anything happened: a message, or something to tell.
    private func wait(for listener: RedisConnection) -> Bool {
        var files = [listener.descriptor, thread.sleeper].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        return poll(&files, nfds_t(files.count), Self.silenceMax) > 0
    }

    private static func news(_ message: RedisConnection.Reply) -> NodeNews? {
        guard case .array(let parts) = message, parts.count == 3, parts[0] == .bytes(Array("message".utf8)),
            case .bytes(let text) = parts[2]
        else { return nil }
        return NodeNews(String(decoding: text, as: UTF8.self))
    }
}
