package import GRDB
import Synchronization
package import TidemarkCore

/// Keeps a connection open on which the server announces new revisions.
///
/// An event is only a hint: it starts the next round early, and may carry the change itself. Without a
/// connection, changes arrive later, but nothing is lost.
final class Listening: Sendable {
    private let database: any DatabaseWriter
    private let transport: any Transport
    private let commits: CommitObserver
    private let pace = Mutex(Pace.listening)

    init(_ database: any DatabaseWriter, _ transport: any Transport, waking commits: CommitObserver) {
        self.database = database
        self.transport = transport
        self.commits = commits
    }

    func run() async {
        while !Task.isCancelled {
            var isWithoutAccess = false
            var seconds: Int?
            do {
                let (file, revision) = try await database.read { (try DeviceFile($0), try ZoneRevision(knownIn: $0)) }
                try await transport.listen(zone: file.zone, device: file.device, from: revision) { receive($0) }
            } catch {
                let refusal = error as? TidemarkError
                isWithoutAccess = refusal.map(Self.endsAccess) ?? false
                seconds = isWithoutAccess ? Self.accessSeconds : refusal?.retryAfterSeconds
            }
            let pause = pace.withLock { [seconds] in
                $0.pauseAfterConnection(retryAfterSeconds: seconds, jitter: Pace.systemJitter())
            }
            do { try await rest(pause, isWithoutAccess: isWithoutAccess) } catch { return }
        }
    }

    /// The pause after a refusal that only a person can end, in seconds.
    private static let accessSeconds = Int(Pace.accessPause / .seconds(1))
    /// The pause between two looks for other credentials.
    private static let credentialsPause = Duration.seconds(10)

    /// Whether the device has no valid token, or no access to the zone.
    private static func endsAccess(_ refusal: TidemarkError) -> Bool {
        refusal.recovery == .leave || [.signInNeeded, .accountMismatch, .unknownZone].contains(refusal.code)
    }

    /// Pauses; other credentials end the pause of a listener without access.
    private func rest(_ pause: Duration, isWithoutAccess: Bool) async throws {
        let mark = isWithoutAccess ? await transport.credentialsMark() : nil
        var rest = pause
        while rest > .zero {
            let piece = isWithoutAccess ? min(rest, Self.credentialsPause) : rest
            try await Task.sleep(for: piece)
            rest -= piece
            if isWithoutAccess, await transport.credentialsMark() != mark { return }
        }
    }

    private func receive(_ event: PushEvent) {
        pace.withLock { $0.recordEvent(event) }
        switch event {
        case .moved(let revision): commits.hear(Hint(end: revision))
        case .changed(let change): commits.hear(Hint(end: change.end, change: change))
        case .alive, .zonesChanged, .bye: break
        }
    }
}

extension ZoneRevision {
    /// Reads the revision of a device's file; nil before its first snapshot.
    package init?(knownIn db: Database) throws {
        let file = try DeviceFile(db)
        guard let epoch = file.epoch else { return nil }
        self.init(zone: file.zone, epoch: epoch, revision: file.revision)
    }
}
