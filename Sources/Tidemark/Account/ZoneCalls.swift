internal import AsyncHTTPClient
internal import NIOHTTP1
public import TidemarkCore

/// A user's requests about zones and members, with credentials, to a server with users; each throws `TidemarkError`.
extension HTTPTransport {
    // MARK: Zones

    /// Returns the id of the user to whom the token belongs.
    @concurrent public func signedInUser() async throws -> String {
        struct Account: Decodable { let user: String }
        return try await get(Account.self, "me").user
    }

    /// Returns the zones of the user with their latest revisions: of one kind, or, with nil, all.
    @concurrent public func zones(kind: ZoneKind? = nil) async throws -> [ZoneSummary] {
        try await get(ZoneList.self, "zones" + (kind.map { "?kind=\($0.rawValue)" } ?? "")).zones
    }

    /// Returns the zones of the user and the list's tag; nil if the list still has the tag `known`.
    @concurrent func zones(since known: String?) async throws -> (zones: [ZoneSummary], tag: String?)? {
        var request = HTTPClientRequest(url: address.url(path: "zones"))
        if let known { request.headers.add(name: "If-None-Match", value: known) }
        return try await exchange.answer(to: request, orStatus: .notModified) { response in
            guard response.status == .ok else {
                // The client closes a connection whose body is not read to its end.
                for try await _ in response.body {}
                return nil
            }
            let list = try exchange.decode(ZoneList.self, from: await exchange.json(response))
            return (list.zones, response.headers.first(name: "ETag"))
        }
    }

    /// Makes a shared zone with a title for people, and returns its name.
    ///
    /// `request` is an idempotency key: the server makes one zone for all requests with the same key.
    @concurrent public func createZone(title: String, request: String) async throws -> String {
        struct Made: Decodable { let zone: String }
        let body = ["kind": ZoneKind.shared.rawValue, "title": title, "request": request]
        return try await call(.POST, "zones", body: body, as: Made.self).zone
    }

    /// Changes a zone's name for people.
    @concurrent public func retitle(_ zone: String, _ title: String) async throws {
        try await call(.PATCH, Self.path(zone), body: ["title": title])
    }

    /// Deletes a zone for all its members; the server's operator can restore it for 30 days.
    @concurrent public func deleteZone(_ zone: String) async throws { try await call(.DELETE, Self.path(zone)) }

    // MARK: Members

    /// Returns the members of a zone.
    @concurrent public func members(of zone: String) async throws -> [ZoneMember] {
        struct List: Decodable { let members: [ZoneMember] }
        return try await get(List.self, "\(Self.path(zone))/members").members
    }

    /// Changes the role of a member.
    @concurrent public func setRole(_ role: Role, of user: String, in zone: String) async throws {
        try await call(.PUT, "\(Self.path(zone))/members/\(ServerAddress.encoded(user))", body: ["role": role.rawValue])
    }

    /// Removes a member from a zone; with nil, the user leaves.
    @concurrent public func removeMember(_ user: String?, from zone: String) async throws {
        try await call(.DELETE, "\(Self.path(zone))/members/\(user.map(ServerAddress.encoded) ?? "me")")
    }

    // MARK: Invitations

    /// Makes an invitation to a zone for people with a role.
    ///
    /// So many people (`uses`) can accept it within so many days. It returns the secret, `tmi_…`: put it behind the `#`
    /// of a link, so that no server's log has it.
    @concurrent public func invite(to zone: String, as role: Role, uses: Int = 1, days: Int = 7) async throws -> String
    {
        struct Offer: Encodable {
            let role: Role
            let uses: Int
            let days: Int
        }
        struct Secret: Decodable { let invitation: String }
        let offer = Offer(role: role, uses: uses, days: days)
        return try await call(.POST, "\(Self.path(zone))/invitations", body: offer, as: Secret.self).invitation
    }

    /// Accepts a secret, or a link that ends with `#` and the secret; again by the same user, it has the same result.
    @concurrent public func accept(_ invitation: String) async throws -> Membership {
        let secret = invitation.split(separator: "#").last.map(String.init) ?? ""
        return try await call(.POST, "invitations", body: ["invitation": secret], as: Membership.self)
    }

    /// Returns the invitations to a zone that can still be accepted.
    @concurrent public func invitations(to zone: String) async throws -> [OpenInvitation] {
        struct List: Decodable { let invitations: [OpenInvitation] }
        return try await get(List.self, "\(Self.path(zone))/invitations").invitations
    }

    /// Revokes an invitation by its id.
    @concurrent public func revokeInvitation(_ id: String, to zone: String) async throws {
        try await call(.DELETE, "\(Self.path(zone))/invitations/\(ServerAddress.encoded(id))")
    }

    // MARK: Events

    /// Listens to the events of all zones of the user, until the connection ends.
    @concurrent func listenToAllZones(heard: @Sendable (PushEvent) -> Void) async throws {
        try await exchange.events(address.url(path: "me/events"), of: nil, heard: heard)
    }

    // MARK: Requests

    private struct ZoneList: Decodable { let zones: [ZoneSummary] }

    private static func path(_ zone: String) -> String { "zones/\(ServerAddress.encoded(zone))" }

    private func get<Answer: Decodable>(_ type: Answer.Type, _ path: String) async throws -> Answer {
        try await withUsers { try exchange.decode(type, from: await exchange.get(address.url(path: path))) }
    }

    private func withUsers<Answer>(_ request: () async throws -> Answer) async throws -> Answer {
        do { return try await request() } catch let error as TidemarkError where error.code == .unknownPath {
            throw TidemarkError(
                .unknownPath, "\(address.hostAndPort) has no users, so nobody makes or shares zones there.",
                fix: "Start the server with --users; without it, everybody syncs the zone main.")
        }
    }

    /// Sends a request whose answer has no body.
    private func call(_ method: HTTPMethod, _ path: String, body: [String: String]? = nil) async throws {
        let request = try exchange.request(method, address.url(path: path), body: body)
        try await withUsers { try await exchange.answer(to: request, orStatus: .noContent) { _ in } }
    }

    private func call<Answer: Decodable>(
        _ method: HTTPMethod, _ path: String, body: some Encodable, as type: Answer.Type
    ) async throws -> Answer {
        let request = try exchange.request(method, address.url(path: path), body: body)
        return try await withUsers {
            try exchange.decode(
                type, from: await exchange.answer(to: request, orStatus: .created, read: exchange.json))
        }
    }
}
