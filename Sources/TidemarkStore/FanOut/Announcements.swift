internal import Synchronization
package import TidemarkCore
package import TidemarkServer

/// Tells those who listen what a store has committed: the change itself where it is small, so that
/// nobody has to ask for it, else that there is one.
///
/// A change is read and written out once, however many listen, and by one task a zone: commits that
/// come meanwhile are told together. Where nobody takes changes, and when reading one fails, the
/// revision is told alone, which whoever listens then asks about. Safe to use from any task.
package final class Announcements: Sendable {
    /// Reads what has led from a revision to a zone's latest; nil when that is not known or not
    /// small.
    package typealias Read = @Sendable (_ base: ZoneRevision) async throws -> ZoneChange?

    private struct State {
        var read: Read?
        /// The zones for which a task is under way, and what they have reached meanwhile.
        var underWay: [String: ZoneRevision] = [:]
    }

    private let fanOut: FanOut
    private let state = Mutex(State())

    /// Makes one that tells revisions alone, until ``start(_:)``.
    package init(_ fanOut: FanOut) { self.fanOut = fanOut }

    /// Begins to tell changes.
    package func start(_ read: @escaping Read) { state.withLock { $0.read = read } }

    /// Whether anybody listens to a zone.
    package func isHeard(in zone: String) -> Bool { fanOut.zones.contains(zone) }

    /// Notes what a zone has reached; returns at once.
    package func committed(_ revision: ZoneRevision) {
        guard let read = state.withLock(\.read), let base = fanOut.base(of: revision.zone), revision.isNews(to: base)
        else { return fanOut.committed(revision) }
        let isFirst = state.withLock { state in
            let waiting = state.underWay[revision.zone]
            if revision.isNews(to: waiting) { state.underWay[revision.zone] = revision }
            return waiting == nil
        }
        if isFirst { Task { await announce(revision, by: read) } }
    }

    /// Tells what a zone has reached, until nothing has been reached meanwhile.
    private func announce(_ revision: ZoneRevision, by read: Read) async {
        var next: ZoneRevision? = revision
        while let reached = next {
            let change = await change(to: reached, by: read)
            fanOut.committed(change?.end ?? reached, by: change)
            next = state.withLock { state in
                let latest = state.underWay[reached.zone]
                if latest == reached { state.underWay[reached.zone] = nil }
                return latest == reached ? nil : latest
            }
        }
    }

    private func change(to reached: ZoneRevision, by read: Read) async -> ZoneChange? {
        guard let base = fanOut.base(of: reached.zone), reached.isNews(to: base) else { return nil }
        do { return try await read(base) } catch {
            // Those who hear of the revision ask for it, and are told then what is wrong.
            return nil
        }
    }
}
