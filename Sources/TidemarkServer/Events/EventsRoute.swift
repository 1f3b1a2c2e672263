internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /events`: sends an event for each new revision of the zone, while the connection lasts.
///
/// A device that names itself also receives small changes. A listener costs its connection and a few words in
/// ``FanOut``: the connection's task waits, and the server renders each event when it writes it. For a listener that
/// does not read, the server buffers a few kilobytes, then closes it as a stalled connection.
///
/// A listener whose token or access ends receives `bye`: at once when a change of access becomes known,
/// and with its next heartbeat when the token's time is over. It never receives news of a commit after that end.
struct EventsRoute {
    /// The most bytes that the system buffers for a listener that does not read.
    private static let unsentBytesMax = 16 << 10
    /// How long a listener may leave sent bytes unacknowledged, in milliseconds.
    private static let unconfirmedMillisecondsMax = 60_000
    let service: any SyncService
    /// Tells whether a listener's access has ended.
    let watch: AccessWatch
    private let latest = LatestEvent()

    static func isEventsRequest(_ request: Request) -> Bool {
        request.method == .get && (request.uri.path.hasSuffix("/events") || ChangesRoute.wantsEvents(request))
    }

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let zone = access.zone
        let lastRevision = request.headers[.lastEventID].flatMap { ZoneRevision(zone: zone, id: $0) }
        let device = request.device
        if let device { try await checkOwner(of: device, access) }
        // Listen before the read, so that no commit in between is missed.
        let listener = try service.fanOut.listen(to: zone, since: lastRevision, device: device)
        service.fanOut.publish(try await service.latest(access))
        let channel = context.channel
        let token = try BearerToken.text(in: request)
        if let device { service.contacts.record(device, access, at: lastRevision?.revision) }
        let body = ResponseBody { [latest, watch, contacts = service.contacts] writer in
            try await Self.configure(channel, for: listener)
            try await writer.write(EventStream.opening)
            var rights = ListenerRights(of: access.caller)
            while let message = await listener.next() {
                guard try await watch.admits(&rights, access: access, token: token, to: message.revision) else {
                    listener.leave()
                    try await writer.write(try latest.text(.bye))
                    break
                }
                try await writer.write(try latest.text(message))
                // A device that receives all changes on its stream sends no requests.
                if let device { contacts.record(device, access, at: message.sentRevision) }
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: EventStream.headers, body: body)
    }

    /// Refuses a stream for a device of another user, as `POST /sync` does.
    private func checkOwner(of device: String, _ access: ZoneAccess) async throws {
        guard let user = access.caller.userID, !planted(PlantedBug.deviceOfAnybody) else { return }
        let known = try await service.read(access, ZoneQuestion { try $0.device(device) })
        guard known?.user ?? user == user else { throw SyncHandler.deviceTaken }
    }

    /// Bounds a connection's buffers, and ends the connection and its listener when the client disconnects.
    static func configure(_ channel: any Channel, for listener: Listener) async throws {
        let size = SocketOptionValue(unsentBytesMax)
        try await channel.setOption(.socketOption(.so_sndbuf), value: size).get()
        let mark = ChannelOptions.Types.WriteBufferWaterMark(low: 1, high: unsentBytesMax)
        try await channel.setOption(.writeBufferWaterMark, value: mark).get()
        #if os(Linux)
        // A phone that loses its network does not disconnect. Without this timeout, the system would
        // retransmit for a quarter of an hour.
        let timeout = ChannelOptions.Types.SocketOption(level: .tcp, name: .tcpUserTimeout)
        let time = SocketOptionValue(unconfirmedMillisecondsMax)
        try await channel.setOption(timeout, value: time).get()
        #endif
        try await HangUpHandler.watch(channel) { [weak listener] in
            listener?.leave()
            channel.close(promise: nil)
        }
    }
}

extension FanOut.Message {
    /// The revision that the message tells; nil if it tells none.
    var revision: ZoneRevision? {
        switch self {
        case .moved(let revision): revision
        case .changed(let change): change.end
        case .listed, .heartbeat, .bye: nil
        }
    }

    /// The revision that a device has after it applies the message; nil if the message brings no rows.
    fileprivate var sentRevision: Int64? {
        guard case .changed(let change) = self else { return nil }
        return change.end.revision
    }
}

#if os(Linux)
extension NIOBSDSocket.Option {
    /// `TCP_USER_TIMEOUT`, which NIO has no name for.
    fileprivate static let tcpUserTimeout = NIOBSDSocket.Option(rawValue: 18)
}
#endif
