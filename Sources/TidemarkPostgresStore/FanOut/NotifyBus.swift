import TidemarkCore
import TidemarkStore

/// How nodes tell each other what they have committed: PostgreSQL's `LISTEN` and `NOTIFY`, on a
/// connection and a thread of their own.
///
/// A notification is sent after the commit, not in it: inside, PostgreSQL would let one transaction
/// of the whole database commit at a time.
final class NotifyBus: NodeBus {
    private let address: String
    private let thread = BusThread()

    init(address: String) { self.address = address }

    func start(_ hear: @escaping @Sendable (NodeNews) -> Void) {
        thread.start { [address, thread] isConnected in
            let pg = try PostgresConnection(address)
            // A lost hint costs nothing, so nothing waits for the disk.
            try pg.execute("SET synchronous_commit = off; LISTEN tidemark")
            isConnected()
            while !thread.isStopped {
                for message in try pg.notifications(or: thread.sleeper, milliseconds: 60_000) {
                    if let news = NodeNews(message) { hear(news) }
                }
                for revision in thread.takePending() {
                    try pg.query("SELECT pg_notify('tidemark', $1)", [NodeNews.message(revision)])
                }
            }
        }
    }

    func tell(_ revision: ZoneRevision) { thread.tell(revision) }

    func stop() { thread.stop() }
}
