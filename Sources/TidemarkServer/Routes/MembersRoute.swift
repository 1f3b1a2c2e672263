internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `/zones/{zone}/members` and `/zones/{zone}/invitations`: who may do what in a zone.
struct MembersRoute: Sendable {
    let registry: ZoneRegistry
    let body: SmallBody
    /// The name in a path by which members mean themselves.
    static let me = "me"

    private struct Member: Encodable {
        let user: String
        let role: Role
    }

    private struct MemberList: Encodable { let members: [Member] }
    private struct Change: Decodable { let role: Role }

    private struct Offer: Decodable {
        let role: Role
        let uses: Int64?
        let days: Int64?
    }

    private struct Secret: Codable { let invitation: String }

    private struct Membership: Encodable {
        let zone: String
        let role: Role
    }

    private struct Open: Encodable {
        let id: String
        let role: Role
        let uses: Int64
        let expires: Int64
    }

    private struct OpenList: Encodable { let invitations: [Open] }

    /// Answers `GET /zones/{zone}/members`.
    @Sendable func list(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let members = try await registry.members(access).map { Member(user: $0.user, role: $0.role) }
        return try await SmallBody.answer(MemberList(members: members), to: request)
    }

    /// Answers `PUT /zones/{zone}/members/{user}`: changes the role of a user.
    @Sendable func set(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let change = try await body.read(Change.self, from: request, context, form: #"{"role":"writer"}"#)
        try await registry.set(change.role, of: try Self.user(in: context, access), access)
        return SmallBody.done
    }

    /// Answers `DELETE /zones/{zone}/members/{user}`: removes a member; `me` leaves.
    @Sendable func remove(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        try await registry.remove(try Self.user(in: context, access), access)
        return SmallBody.done
    }

    /// Answers `POST /zones/{zone}/invitations`.
    @Sendable func invite(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let form = #"{"role":"writer","uses":1,"days":7}"#
        let offer = try await body.read(Offer.self, from: request, context, form: form)
        let secret = try await registry.invite(
            access, as: offer.role, uses: offer.uses ?? 1, days: offer.days ?? Invitations.daysDefault)
        return try await SmallBody.answer(Secret(invitation: secret), status: .created, to: request)
    }

    /// Answers `GET /zones/{zone}/invitations`.
    @Sendable func invitations(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let open = try await registry.invitations(access).map {
            Open(id: $0.id, role: $0.role, uses: $0.uses, expires: $0.expires)
        }
        return try await SmallBody.answer(OpenList(invitations: open), to: request)
    }

    /// Answers `DELETE /zones/{zone}/invitations/{id}`.
    @Sendable func revoke(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        try await registry.revokeInvitation(try context.name("id"), access)
        return SmallBody.done
    }

    /// Answers `POST /invitations`: makes the sender a member.
    @Sendable func accept(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws
        -> Response
    {
        let secret = try await body.read(Secret.self, from: request, context, form: #"{"invitation":"tmi_..."}"#)
        let (zone, role) = try await registry.accept(secret.invitation, by: user.id)
        return try await SmallBody.answer(Membership(zone: zone, role: role), to: request)
    }

    private static func user(in context: ServerRequestContext, _ access: ZoneAccess) throws -> String {
        let name = try context.name("user")
        return name == me ? access.caller.userID ?? name : name
    }
}
