internal import Synchronization
package import TidemarkCore

/// Publishes a store's commits to listeners: a small change itself, else its revision only.
///
/// One task a zone reads and renders each change once for all listeners; later commits are
/// published together. If no listener receives changes, or reading fails, only the revision is
/// published. Safe to use from any task.
package final class Announcements: Sendable {
    /// Reads the change from a revision to a zone's latest; nil if it is not available or not small.
    package typealias Read = @Sendable (_ base: ZoneRevision) async throws -> ZoneChange?

    private struct State {
        var read: Read?
        /// The latest revision of each zone that has a running task.
        var latestByZone: [String: ZoneRevision] = [:]
    }

    private let fanOut: FanOut
    private let state = Mutex(State())

    /// Publishes revisions only, until ``start(_:)``.
    package init(_ fanOut: FanOut) { self.fanOut = fanOut }

    /// Begins to publish changes.
    package func start(_ read: @escaping Read) { state.withLock { $0.read = read } }

    /// Whether a zone has listeners.
    package func hasListeners(in zone: String) -> Bool { fanOut.zones.contains(zone) }

    /// Publishes a zone's revision; returns at once.
    package func publish(_ revision: ZoneRevision) {
        guard let read = state.withLock(\.read), let base = fanOut.base(of: revision.zone), revision.isNews(to: base)
        else { return fanOut.publish(revision) }
        let isFirst = state.withLock { state in
            let pending = state.latestByZone[revision.zone]
            if revision.isNews(to: pending) { state.latestByZone[revision.zone] = revision }
            return pending == nil
        }
        if isFirst { Task { await publishAll(from: revision, by: read) } }
    }

    /// Publishes a zone's revisions until no newer one arrives.
    private func publishAll(from first: ZoneRevision, by read: Read) async {
        var next: ZoneRevision? = first
        while let revision = next {
            let change = await change(to: revision, by: read)
            fanOut.publish(change?.end ?? revision, by: change)
            next = state.withLock { state in
                let latest = state.latestByZone[revision.zone]
                if latest == revision { state.latestByZone[revision.zone] = nil }
                return latest == revision ? nil : latest
            }
        }
    }

    private func change(to revision: ZoneRevision, by read: Read) async -> ZoneChange? {
        guard let base = fanOut.base(of: revision.zone), revision.isNews(to: base) else { return nil }
        do { return try await read(base) } catch {
            // Listeners request the revision, and receive the error then.
            return nil
        }
    }
}
