internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /me/events`: one stream for all zones of the sender.
///
/// It begins with the revision of each zone, and sends an event for each new one. When the sender's zones or
/// roles change, it sends `event: zones`, and begins again with the new ones. So a device with thirty zones holds
/// one connection, and asks only where something is new.
struct UserEventsRoute: Sendable {
    let registry: ZoneRegistry
    let members: MemberGate
    let service: any SyncService
    /// Tells whether the sender's rights may have changed.
    let watch: AccessWatch

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws
        -> Response
    {
        let listener = try service.fanOut.listen()
        let token = try BearerToken.text(in: request)
        let stream = Stream(user: user, token: token, roles: try await roles(of: user), rights: .init(of: .user(user)))
        try await listen(listener, to: stream)
        let channel = context.channel
        let body = ResponseBody { [stream] writer in
            var stream = stream
            try await EventsRoute.configure(channel, for: listener)
            try await writer.write(EventStream.opening)
            while let message = await listener.next() {
                guard let text = try await text(of: message, to: listener, on: &stream) else { continue }
                try await writer.write(text)
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: EventStream.headers, body: body)
    }

    /// A connection's sender, and what the sender may read.
    private struct Stream: Sendable {
        let user: Caller.User
        let token: String?
        /// The zones of the stream with the user's roles.
        var roles: [String: Role]
        var rights: ListenerRights
        /// The number of lists so far; the version of all users' rights would count the changes of others.
        var listNumber: Int64 = 0

        var accesses: [ZoneAccess] {
            roles.sorted { $0.key < $1.key }.map { ZoneAccess(zone: $0.key, caller: .user(user), role: $0.value) }
        }
    }

    /// Returns the text to send for a message; nil for a message that must not be sent.
    private func text(of message: FanOut.Message, to listener: Listener, on stream: inout Stream) async throws
        -> ByteBuffer?
    {
        switch try await watch.step(of: stream.rights, to: message.revision) {
        case .stays: break
        case .ends: return try end(listener)
        case .decidesAgain(let moment):
            guard try await members.isSignedIn(stream.user.id, token: stream.token) else { return try end(listener) }
            let roles = try await roles(of: stream.user)
            stream.rights.admit(at: moment)
            guard roles == stream.roles else {
                stream.roles = roles
                try await listen(listener, to: stream)
                stream.listNumber += 1
                listener.announce(list: stream.listNumber)
                // The message can be about a zone that is no longer the user's.
                return nil
            }
        }
        return try EventStream.text(message)
    }

    private func end(_ listener: Listener) throws -> ByteBuffer {
        listener.leave()
        return try EventStream.text(.bye)
    }

    private func roles(of user: Caller.User) async throws -> [String: Role] {
        let ready = try await registry.memberships(of: user.id).filter { $0.zone.life == .ready }
        return Dictionary(uniqueKeysWithValues: ready.map { ($0.zone.name, $0.role) })
    }

    /// Begins with the revision of each zone; listens before the read, so that no commit in between is missed.
    private func listen(_ listener: Listener, to stream: Stream) async throws {
        // Forgets the revisions that the stream has told, because the last one of them was not sent.
        listener.setZones([])
        listener.setZones(Set(stream.roles.keys))
        for revision in try await service.latest(of: stream.accesses) { service.fanOut.publish(revision) }
    }
}
