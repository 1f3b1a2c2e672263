import Foundation
package import TidemarkCore
package import TidemarkStoreSupport

/// Carries news of commits between nodes through Redis instead of PostgreSQL.
///
/// One connection subscribes and another publishes, both on one thread: a connection that has
/// subscribed accepts no other commands. All databases of a Redis share their channels, so the
/// channel's name contains the database's number.
package final class RedisBus: NodeBus {
    /// The longest silence before a ping, in milliseconds.
    private static let silenceMax: Int32 = 10_000
    /// The longest wait for an answer, in milliseconds.
    private static let answerTimeout = 2_000

    private let address: RedisAddress
    private let thread = BusThread()

    /// Makes a bus that has not started.
    package init(_ address: RedisAddress) {
        self.address = address
        RedisConnection.ignoreBrokenPipes()
    }

    package func start(_ hear: @escaping @Sendable (NodeNews) -> Void) {
        thread.start { [self] isConnected in
            let listener = try RedisConnection(address, milliseconds: Self.answerTimeout)
            let speaker = try RedisConnection(address, milliseconds: Self.answerTimeout)
            _ = try listener.run(["SUBSCRIBE", channel])
            isConnected()
            var isPingOpen = false
            while !thread.isStopped {
                if wait(for: listener) {
                    isPingOpen = false
                } else if isPingOpen {
                    throw RedisFailure(message: "no answer")
                } else {
                    try listener.send([Array("PING".utf8)])
                    try listener.flush()
                    isPingOpen = true
                }
                for message in try listener.receiveArrived() { if let news = Self.news(message) { hear(news) } }
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

    /// Waits for a message or a revision to publish; false after ``silenceMax``.
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
