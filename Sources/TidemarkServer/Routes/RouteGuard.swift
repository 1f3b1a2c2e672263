internal import Foundation
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// Decides about the sender of each request, before the server reads the request's body.
struct RouteGuard: Sendable {
    let admission: Admission

    init(gate: any AccessGate, rates: RequestRates?, bodyBytesMax: Int) {
        admission = Admission(gate: gate, rates: rates, bodyBytesMax: bodyBytesMax)
    }

    /// Answers a request, if its sender may send it.
    func respond(to request: Request, _ context: ServerRequestContext, by answer: Route.Answer) async throws -> Response
    {
        switch answer {
        case .anybody(let answer): return try await answer(request, context)
        case .members(let role, let answer):
            let access = try await decide(request) { try await zoneAccess(of: request, context, role: role) }
            var named = access
            named.deviceName = StatedName.name(in: request)
            named.network = ClientNetwork.name(of: context.clientAddress)
            let counted = admission.counting(request, by: access.caller, context)
            let standing = Standing(gate: admission.gate, access: access, token: try BearerToken.text(in: request))
            return try await standing.confirming { [named] in
                try await answer(standing.confirming(bodyOf: counted), context, named)
            }
        case .users(let answer):
            let user = try await decide(request) { try await signedInUser(request, context) }
            return try await answer(admission.counting(request, by: .user(user), context), context, user)
        case .administrators(let answer):
            try await decide(request) { try await requireAdministrator(request, context) }
            return try await answer(request, context)
        case .holders(let issuer, let answer):
            let token = try await decide(request) { try await checkedToken(of: request, context, by: issuer) }
            return try await answer(request, context, token)
        }
    }

    private func zoneAccess(of request: Request, _ context: ServerRequestContext, role: Role) async throws -> ZoneAccess
    {
        if planted(PlantedBug.forgetsCaller) { return .local(try context.zone) }
        if planted(PlantedBug.snapshotOfAnybody), SnapshotPart(request) != nil { return .local(try context.zone) }
        let access = try await admission.access(to: context.zone, request, context)
        guard access.role >= role else {
            throw TidemarkError(
                .notAllowed,
                "In this zone you are \(access.role.withArticle), and the request needs \(role.withArticle).",
                fix: "Ask an owner of the zone for the role."
            )
        }
        return access
    }

    private func signedInUser(_ request: Request, _ context: ServerRequestContext) async throws -> Caller.User {
        guard case .user(let user) = try await admission.caller(request, context) else {
            throw Self.tokenMissing
        }
        guard !user.isAdministrator else { throw MemberGate.metricsOnly }
        return user
    }

    private func requireAdministrator(_ request: Request, _ context: ServerRequestContext) async throws {
        let caller = try await admission.caller(request, context)
        guard caller != .anonymous else { throw Self.tokenMissing }
        guard caller.isAdministrator else {
            throw TidemarkError(
                .notAllowed,
                "Only an administrator may read this.",
                fix: "Send a token that `tidemark token add --administrator` issued."
            )
        }
    }

    private func checkedToken(
        of request: Request,
        _ context: ServerRequestContext,
        by issuer: any TokenIssuer
    ) async throws -> String {
        try admission.requireSignIn(request, context)
        do {
            guard let token = try BearerToken.text(in: request) else { throw Self.tokenMissing }
            try await issuer.check(token)
            return token
        } catch {
            admission.countFailure(error, of: request, context)
            throw error
        }
    }

    /// Runs a decision; when it refuses, drops the body without keeping a byte of it.
    private func decide<Decision: Sendable>(
        _ request: Request,
        _ decision: () async throws -> Decision
    ) async throws -> Decision {
        do { return try await decision() } catch let error as TidemarkError where error.code.status.kind == .clientError
        {
            var refusal = Refusal(error)
            refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
            throw refusal
        }
    }

    private static let tokenMissing = TidemarkError(
        .signInNeeded,
        "The request has no token.",
        fix: "Send Authorization: Bearer and a token."
    )
}

extension ServerRequestContext {
    /// The zone in the request's path.
    fileprivate var zone: String {
        get throws {
            guard let raw = parameters.get("zone") else { return RouteTable.defaultZone }
            guard let zone = raw.removingPercentEncoding else {
                throw TidemarkError(
                    .unknownZone,
                    "The zone in the path is not valid percent-encoded UTF-8.",
                    fix: "Write /zones/ and then the zone's name, percent-encoded."
                )
            }
            return zone
        }
    }
}
