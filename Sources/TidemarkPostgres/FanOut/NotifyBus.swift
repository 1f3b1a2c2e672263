import TidemarkCore
import TidemarkStoreSupport

/// Announces commits to other nodes by PostgreSQL's `LISTEN` and `NOTIFY`.
///
/// The bus has its own connection and thread. It sends a notification after the commit, because
/// PostgreSQL serializes the commits of transactions that contain a `NOTIFY`.
final class NotifyBus: NodeBus {
    private let address: String
    private let thread = BusThread()

    init(address: String) { self.address = address }

    func start(_ hear: @escaping @Sendable (NodeNews) -> Void) {
        thread.start { [address, thread] isConnected in
            let pg = try PostgresConnection(address)
            // A lost notification costs nothing, so the bus does not wait for the disk.
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
