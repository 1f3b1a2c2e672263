internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `/zones`: the zones of the sender, and new ones.
struct ZonesRoute: Sendable {
    let registry: ZoneRegistry
    let service: any SyncService
    let body: SmallBody

    private struct Entry: Encodable {
        let zone: String
        let kind: ZoneKind
        let title: String?
        let role: Role
        /// Nil for a user who is no member, and sees none.
        let members: Int64?
        let epoch: String?
        let revision: Int64?
    }

    private struct List: Encodable { let zones: [Entry] }

    private struct Creation: Decodable {
        let kind: ZoneKind
        let title: String?
        let request: String
    }

    private struct Made: Encodable {
        let zone: String
        let kind: ZoneKind
        let title: String?
    }

    private struct Title: Decodable { let title: String }

    /// Answers `GET /zones`: the zones with their revisions, so that a device syncs only those with news.
    ///
    /// `?kind=shared` selects the zones of one kind. The answer has an `ETag`, and 304 tells that nothing is new.
    @Sendable func list(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws -> Response
    {
        let kind = try request.query("kind").map(Self.kind)
        let memberships = try await registry.memberships(of: user.id).filter { kind == nil || $0.zone.kind == kind }
        let accesses = memberships.map { ZoneAccess(zone: $0.zone.name, caller: .user(user), role: $0.role) }
        // A zone that nobody has used yet has no tables and no revision.
        let ready = zip(memberships, accesses).filter { $0.0.zone.life == .ready }.map(\.1)
        let revisions = try await service.latest(of: ready)
        let byZone = Dictionary(revisions.map { ($0.zone, $0) }) { first, _ in first }
        let entries = memberships.map { membership in
            let revision = byZone[membership.zone.name]
            return Entry(
                zone: membership.zone.name, kind: membership.zone.kind, title: membership.zone.title,
                role: membership.role, members: membership.members, epoch: revision?.epoch, revision: revision?.revision
            )
        }
        var response = try await SmallBody.answer(List(zones: entries), to: request)
        let tag = "\"\(Self.hash(of: entries))\""
        response.headers[.eTag] = tag
        guard request.headers[.ifNoneMatch] == tag else { return response }
        return Response(status: .notModified, headers: [.eTag: tag, .cacheControl: "no-store"])
    }

    /// Answers `POST /zones`: makes a shared zone, once for each `request`.
    @Sendable func make(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws -> Response
    {
        let creation = try await body.read(
            Creation.self, from: request, context, form: #"{"kind":"shared","title":"Shopping","request":"UUID"}"#)
        let zone = try await registry.make(creation.kind, title: creation.title, by: user.id, request: creation.request)
        return try await SmallBody.answer(
            Made(zone: zone.name, kind: zone.kind, title: zone.title), status: .created, to: request)
    }

    /// Answers `PATCH /zones/{zone}`: changes what people call the zone.
    @Sendable func retitle(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let title = try await body.read(Title.self, from: request, context, form: #"{"title":"Shopping"}"#)
        try await registry.retitle(access, title.title)
        return SmallBody.done
    }

    /// Answers `DELETE /zones/{zone}`.
    @Sendable func delete(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        try await registry.delete(access)
        return SmallBody.done
    }

    /// Returns a hash that differs between lists with high probability.
    private static func hash(of entries: [Entry]) -> String {
        let facts = entries.map { entry in
            [
                entry.zone, entry.title ?? "", entry.role.rawValue, "\(entry.members ?? -1)", entry.epoch ?? "",
                "\(entry.revision ?? -1)",
            ].joined(separator: "\0")
        }
        return String(ContentHash.of(facts).prefix(16))
    }

    private static func kind(_ text: some StringProtocol) throws -> ZoneKind {
        guard let kind = ZoneKind(rawValue: String(text)) else {
            throw TidemarkError(
                .malformedRequest, "There is no such kind of zones.",
                fix: "Ask for ?kind= and one of \(ZoneKind.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        return kind
    }
}
