internal import NIOCore
internal import TidemarkCore
internal import TidemarkServer

/// Long polling: a request with `wait` is held, outside any transaction, until there is news for it
/// or its time is over.
///
/// It is handled after that, once.
struct HeldRequest {
    let service: any SyncService
    let zone: String
    let channel: any Channel

    /// Returns when the request is to be handled, at once if it is not to be held.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused, and ``ClientGone``
    ///   when nobody waits for an answer any more.
    func wait(_ body: [UInt8]) async throws {
        guard Hold.isPossible(for: body), let listener = listener() else { return }
        // First listen, then look: what is committed in between is heard.
        guard let hold = try await service.hold(zone: zone, body: body) else { return }
        let seen = ZoneRevision(zone: zone, epoch: hold.epoch, revision: hold.revision)
        service.fanOut.committed(seen)
        listener.knows(seen)
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

    /// A listener for one message; nil when there is no room: then the answer comes early.
    private func listener() -> Listener? {
        do { return try service.fanOut.listen(to: zone, isOnce: true) } catch { return nil }
    }
}
