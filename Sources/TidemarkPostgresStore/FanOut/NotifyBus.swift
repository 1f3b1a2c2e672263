import Foundation
import Synchronization
import TidemarkCore
import TidemarkServer

/// How nodes tell each other what they have committed: PostgreSQL's `LISTEN` and `NOTIFY`, on a
/// connection and a thread of their own.
///
/// A notification is sent after the commit, not in it: inside, PostgreSQL would let one transaction
/// of the whole database commit at a time. It is a hint that may be lost with the connection; who
/// listens to a zone looks at it now and then.
final class NotifyBus: Sendable {
    /// What is heard.
    enum News: Hashable, Sendable {
        /// A node has committed.
        case committed(ZoneRevision)
        /// Another program has committed in a zone's tables, which is in no revision yet.
        case outside(zone: String)

        /// Reads a payload; nil when it is none of ours.
        init?(_ payload: String) {
            let parts = payload.split(separator: " ", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { return nil }
            switch parts[0] {
            case "outside": self = .outside(zone: parts[1])
            case "commit":
                let fields = parts[1].split(separator: " ", maxSplits: 2).map(String.init)
                guard fields.count == 3, let revision = Int64(fields[1]) else { return nil }
                self = .committed(
                    ZoneRevision(zone: fields[2], epoch: fields[0], revision: revision)
                )
            default: return nil
            }
        }

        /// The payload of a commit.
        static func payload(_ revision: ZoneRevision) -> String {
            "commit \(revision.epoch) \(revision.revision) \(revision.zone)"
        }
    }

    private struct State {
        /// What is to be told, the latest of each zone.
        var pending: [String: ZoneRevision] = [:]
        /// What has been told.
        var told: [String: ZoneRevision] = [:]
        var isStopped = false
    }

    /// The longest pause before a lost connection is made anew, in milliseconds.
    private static let pauseMax: Int32 = 5_000

    private let address: String
    private let state = Mutex(State())
    /// A pipe by which the thread is woken.
    private let (waker, sleeper): (Int32, Int32)

    init(address: String) {
        self.address = address
        var ends: [Int32] = [-1, -1]
        pipe(&ends)
        for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
        (sleeper, waker) = (ends[0], ends[1])
    }

    deinit {
        close(waker)
        close(sleeper)
    }

    /// Begins to listen; `hear` is called on the bus's thread and must not wait.
    func start(_ hear: @escaping @Sendable (News) -> Void) {
        Thread.detachNewThread { self.run(hear) }
    }

    /// Ends the thread.
    func stop() {
        state.withLock { $0.isStopped = true }
        wake()
    }

    /// Tells the other nodes that a zone has reached a revision, soon.
    func tell(_ revision: ZoneRevision) {
        let isNew = state.withLock { state in
            guard revision.isNews(to: state.told[revision.zone]),
                revision.isNews(to: state.pending[revision.zone])
            else { return false }
            state.pending[revision.zone] = revision
            return true
        }
        if isNew { wake() }
    }

    private func wake() {
        var byte: UInt8 = 0
        // A full pipe wakes as well.
        _ = write(waker, &byte, 1)
    }

    // MARK: The thread

    private func run(_ hear: (News) -> Void) {
        var pause: Int32 = 100
        while !state.withLock(\.isStopped) {
            do {
                try listen(hear) { pause = 100 }
            } catch {
                // Nobody depends on it: zones that are listened to are looked at by a timer too.
                rest(pause)
                pause = min(pause * 2, Self.pauseMax)
            }
        }
    }

    private func listen(_ hear: (News) -> Void, whenConnected: () -> Void) throws {
        let pg = try PostgresConnection(address)
        // A lost hint costs nothing, so nothing waits for the disk.
        try pg.execute("SET synchronous_commit = off; LISTEN tidemark")
        whenConnected()
        while !state.withLock(\.isStopped) {
            for payload in try pg.notifications(or: sleeper, milliseconds: 60_000) {
                if let news = News(payload) { hear(news) }
            }
            drainPipe()
            try tellPending(pg)
        }
    }

    private func tellPending(_ pg: PostgresConnection) throws {
        let pending = state.withLock { state in
            let pending = state.pending
            state.pending.removeAll()
            state.told.merge(pending) { $1 }
            return pending.values.sorted { $0.zone < $1.zone }
        }
        for revision in pending {
            try pg.query("SELECT pg_notify('tidemark', $1)", [News.payload(revision)])
        }
    }

    private func rest(_ milliseconds: Int32) {
        var file = pollfd(fd: sleeper, events: Int16(POLLIN), revents: 0)
        poll(&file, 1, milliseconds)
        drainPipe()
    }

    private func drainPipe() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(sleeper, &bytes, bytes.count) > 0 {}
    }
}
