import GRDB
import Synchronization
import TidemarkCore

/// Keeps a connection open on which the server tells that the zone has moved on.
///
/// What is heard is a hint: it makes the background loop look earlier than it would have anyway. A
/// connection that cannot be had, or is cut, costs promptness and nothing else.
final class Listening: Sendable {
    private let database: any DatabaseWriter
    private let transport: any Transport
    private let zone: String
    private let commits: CommitObserver
    private let pace = Mutex(ListeningPace())

    init(
        _ database: any DatabaseWriter,
        _ transport: any Transport,
        zone: String,
        waking commits: CommitObserver
    ) {
        (self.database, self.transport) = (database, transport)
        (self.zone, self.commits) = (zone, commits)
    }

    /// Listens until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                let known = try await database.read { try ZoneRevision(knownIn: $0) }
                try await transport.listen(zone: zone, from: known) { heard($0) }
            } catch {
                let seconds = (error as? TidemarkError)?.retryAfterSeconds
                pace.withLock { $0.refused(retryAfterSeconds: seconds) }
            }
            let pause = pace.withLock { $0.ended(jitter: Pace.systemJitter()) }
            do { try await Task.sleep(for: pause) } catch { return }
        }
    }

    private func heard(_ event: PushEvent) {
        pace.withLock { $0.heard(event) }
        if case .moved(let revision) = event { commits.hear(revision) }
    }
}

extension ZoneRevision {
    /// What a device's file is at; nil before its first snapshot.
    init?(knownIn db: Database) throws {
        let file = try DeviceFile(db)
        guard let epoch = file.epoch else { return nil }
        self.init(zone: file.zone, epoch: epoch, revision: file.revision)
    }
}
