package import GRDB
import Synchronization
package import TidemarkCore

/// Holds a connection for events until the task is cancelled, and makes it anew after growing pauses.
///
/// After a refusal for which `endsAccess` says that only a person can help, the pause is longer, and another number of
/// `credentialsMark` ends it.
func holdConnection(
    endsAccess: (TidemarkError) -> Bool, credentialsMark: () async -> Int?,
    _ connect: (_ heard: @Sendable (PushEvent) -> Void) async throws -> Void
) async {
    let pace = Mutex(Pace.listening)
    while !Task.isCancelled {
        var isWithoutAccess = false
        var seconds: Int?
        do { try await connect { event in pace.withLock { $0.recordEvent(event) } } } catch {
            let refusal = error as? TidemarkError
            isWithoutAccess = refusal.map(endsAccess) ?? false
            seconds = isWithoutAccess ? Int(Pace.accessPause / .seconds(1)) : refusal?.retryAfterSeconds
        }
        var rest = pace.withLock { [seconds] in
            $0.pauseAfterConnection(retryAfterSeconds: seconds, jitter: Pace.systemJitter())
        }
        let mark = isWithoutAccess ? await credentialsMark() : nil
        while rest > .zero {
            let piece = isWithoutAccess ? min(rest, Pace.credentialsPause) : rest
            do { try await Task.sleep(for: piece) } catch { return }
            rest -= piece
            if isWithoutAccess, await credentialsMark() != mark { break }
        }
    }
}

/// Keeps a connection open on which the server announces new revisions.
///
/// An event is only a hint: it starts the next round early, and may carry the change itself. Without a
/// connection, changes arrive later, but nothing is lost.
struct Listening: Sendable {
    let database: any DatabaseWriter
    let transport: any Transport
    let commits: CommitObserver

    func run() async {
        await holdConnection(endsAccess: Self.endsAccess, credentialsMark: transport.credentialsMark) { heard in
            let (file, revision) = try await database.read { (try DeviceFile($0), try ZoneRevision(knownIn: $0)) }
            try await transport.listen(zone: file.zone, device: file.device, from: revision) { event in
                heard(event)
                switch event {
                case .moved(let revision): commits.hear(Hint(end: revision))
                case .changed(let change): commits.hear(Hint(end: change.end, change: change))
                case .alive, .zonesChanged, .bye: break
                }
            }
        }
    }

    /// Whether the device has no valid token, or no access to the zone.
    private static func endsAccess(_ refusal: TidemarkError) -> Bool {
        refusal.recovery == .leave || [.signInNeeded, .accountMismatch, .unknownZone].contains(refusal.code)
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
