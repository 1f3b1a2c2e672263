package import GRDB
import Synchronization
package import TidemarkCore

/// Keeps a connection open on which the server tells that the zone has moved on.
///
/// What is heard is a hint: it makes the background loop look earlier than it would have anyway,
/// and perhaps brings what the loop would have asked for. A connection that cannot be had, or is
/// cut, costs promptness and nothing else.
final class Listening: Sendable {
    private let database: any DatabaseWriter
    private let transport: any Transport
    private let zone: String
    private let commits: CommitObserver
    private let pace = Mutex(ListeningPace())

    init(_ database: any DatabaseWriter, _ transport: any Transport, zone: String, waking commits: CommitObserver) {
        self.database = database
        self.transport = transport
        self.zone = zone
        self.commits = commits
    }

    /// Listens until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                let (device, known) = try await database.read { db in
                    (try DeviceFile(db).device, try ZoneRevision(knownIn: db))
                }
                try await transport.listen(zone: zone, device: device, from: known) { heard($0) }
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
        switch event {
        case .moved(let revision): commits.hear(Hint(end: revision))
        case .changed(let change): commits.hear(Hint(end: change.end, change: change))
        case .alive, .bye: break
        }
    }
}

/// What the server has told unasked.
package struct Hint: Hashable, Sendable {
    /// What the zone is at.
    package let end: ZoneRevision
    /// How it came there, if the server has said so.
    package var change: PushedChange?

    /// Makes a hint.
    package init(end: ZoneRevision, change: PushedChange? = nil) {
        self.end = end
        self.change = change
    }
}

extension ZoneRevision {
    /// What a device's file is at; nil before its first snapshot.
    package init?(knownIn db: Database) throws {
        let file = try DeviceFile(db)
        guard let epoch = file.epoch else { return nil }
        self.init(zone: file.zone, epoch: epoch, revision: file.revision)
    }
}
