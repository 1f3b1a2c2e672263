internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkServer

/// `GET /events`: tells for as long as the connection lasts that the zone has moved on, and a
/// device that names itself what has changed, where that is little.
///
/// A listener costs its connection and a few words in ``FanOut``: its connection's own task waits,
/// and what is written is made when it is written. One that does not read stops at a few kilobytes
/// and is closed like any other connection that does not move.
struct EventsRoute {
    /// What the system may keep back for a listener that does not read, in bytes.
    private static let unsentBytesMax = 16 << 10
    /// How long a listener may leave it open whether anything has reached it, in milliseconds.
    private static let unconfirmedMillisecondsMax = 60_000

    let service: any SyncService
    private let latest = LatestEvent()

    init(service: any SyncService) { self.service = service }

    /// Whether a request is one for events, in whatever zone.
    static func isAsked(by request: Request) -> Bool { request.method == .get && request.uri.path.hasSuffix("/events") }

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        let zone = try context.zone
        let told = request.headers[.lastEventID].flatMap { ZoneRevision(zone: zone, id: $0) }
        // First listen, then look: what is committed in between is heard.
        let listener = try service.fanOut.listen(to: zone, told: told, device: DeviceQuery.device(in: request))
        service.fanOut.committed(try await service.latest(zone: zone))
        let stream = try EventStream(zone: zone)
        let channel = context.channel
        let body = ResponseBody { [latest] writer in
            try await Self.prepare(channel) { [weak listener] in
                listener?.leave()
                channel.close(promise: nil)
            }
            try await writer.write(EventStream.opening)
            while let message = await listener.next() { try await writer.write(latest.text(message, on: stream)) }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: EventStream.headers, body: body)
    }

    /// Bounds what a connection may hold back, and notices its end.
    private static func prepare(_ channel: any Channel, _ hungUp: @escaping @Sendable () -> Void) async throws {
        let size = SocketOptionValue(unsentBytesMax)
        try await channel.setOption(.socketOption(.so_sndbuf), value: size).get()
        let mark = ChannelOptions.Types.WriteBufferWaterMark(low: 1, high: unsentBytesMax)
        try await channel.setOption(.writeBufferWaterMark, value: mark).get()
        #if os(Linux)
        // A phone without a network does not hang up; the system would try to reach it for a
        // quarter of an hour.
        let timeout = ChannelOptions.Types.SocketOption(level: .tcp, name: .tcpUserTimeout)
        let time = SocketOptionValue(unconfirmedMillisecondsMax)
        try await channel.setOption(timeout, value: time).get()
        #endif
        try await HangUpHandler.watch(channel, hungUp)
    }
}

#if os(Linux)
extension NIOBSDSocket.Option {
    /// `TCP_USER_TIMEOUT`, which NIO has no name for.
    fileprivate static let tcpUserTimeout = NIOBSDSocket.Option(rawValue: 18)
}
#endif
