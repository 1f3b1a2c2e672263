internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// Long polling: the server holds a request with `wait` until there is news or its time is over.
///
/// The request waits outside any transaction. Then the server handles it, once.
struct HeldRequest {
    let service: any SyncService
    let access: ZoneAccess
    let channel: any Channel

    /// Waits until the server should handle the request; returns at once if it need not wait.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if the server refuses the request, and ``ClientGone`` if
    ///   the client disconnects.
    func wait(_ body: [UInt8]) async throws {
        guard Hold.isPossible(for: body) else { return }
        try await waitForNews { try await service.hold(access, body: body) }
    }

    /// Waits until the zone is beyond a revision, or the time is over.
    ///
    /// - Throws: ``ClientGone`` if the client disconnects, or the failure of the database.
    func wait(after revision: Int64, milliseconds: Int) async throws {
        try await waitForNews {
            let latest = try await service.latest(access)
            guard latest.revision <= revision else { return nil }
            return Hold(epoch: latest.epoch, revision: latest.revision, milliseconds: milliseconds)
        }
    }

    /// Listens, then waits for the next message if `read` finds that the request should.
    private func waitForNews(_ read: () async throws -> Hold?) async throws {
        // Listen before the read, so that no commit in between is missed.
        guard let listener = listener(), let hold = try await read() else { return }
        let currentRevision = ZoneRevision(zone: access.zone, epoch: hold.epoch, revision: hold.revision)
        service.fanOut.publish(currentRevision)
        listener.acknowledge(currentRevision)
        let leave = { @Sendable [weak listener] in
            guard let listener else { return }
            listener.leave()
        }
        let time = TimeAmount.milliseconds(Int64(hold.milliseconds))
        let end = channel.eventLoop.scheduleTask(in: time, leave)
        defer { end.cancel() }
        try await HangUpHandler.watch(channel, leave)
        _ = await listener.next()
        guard channel.isActive else { throw ClientGone(cause: ChannelError.eof) }
    }

    /// Creates a listener for one message; nil if there are too many, then the answer comes early.
    private func listener() -> Listener? {
        do { return try service.fanOut.listen(to: access.zone, isOnce: true) } catch { return nil }
    }
}
