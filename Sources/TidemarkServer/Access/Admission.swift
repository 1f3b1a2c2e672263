internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// Decides who sends a request, and whether the sender may send one more now, before its body is read.
struct Admission: Sendable {
    let gate: any AccessGate
    /// The rates; nil for a server without limits.
    let rates: RequestRates?

    /// Returns the sender of a request, and takes the request's costs.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` or ``TidemarkCore/ErrorCode/rateLimited``.
    func caller(_ request: Request, _ context: ServerRequestContext) async throws -> Caller {
        let caller = try await decide(request, context) { try await gate.caller(token: $0) }
        try admit(request, by: caller, context)
        return caller
    }

    /// Returns the sender's access to a zone, and takes the request's costs before the gate looks at the zone.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/rateLimited``, or a refusal of the gate.
    func access(to zone: String, _ request: Request, _ context: ServerRequestContext) async throws -> ZoneAccess {
        try await decide(request, context) { token in
            try await gate.access(to: zone, token: token) { try admit(request, by: $0, context) }
        }
    }

    /// Runs a decision about the request's token, and counts a refusal of it.
    private func decide<Decision>(
        _ request: Request,
        _ context: ServerRequestContext,
        by decision: (_ token: String?) async throws -> Decision
    ) async throws -> Decision {
        try requireSignIn(request, context)
        do { return try await decision(BearerToken.text(in: request)) } catch {
            countFailure(error, of: request, context)
            throw error
        }
    }

    /// Admits a sender whose user and rates permit the request, and takes its costs.
    private func admit(
        _ request: Request,
        by caller: Caller,
        _ context: ServerRequestContext
    ) throws(TidemarkError) {
        try Self.requireUser(of: request, caller)
        if let rates { try rates.take(costs(of: request, by: caller, context)) }
    }

    /// Refuses a device whose file belongs to another user than its token.
    ///
    /// Otherwise a device that is handed over would send the former user's changes as the new user's.
    private static func requireUser(of request: Request, _ caller: Caller) throws(TidemarkError) {
        guard let stated = request.headers[.tidemarkUser], case .user(let user) = caller,
            stated.removingPercentEncoding != user.id
        else { return }
        throw TidemarkError(
            .accountMismatch,
            "The device's file belongs to another user than the token.",
            fix: "Sign in as the user of the file, or use another file."
        )
    }

    /// Refuses a request with a token if too many tokens of its address were refused.
    ///
    /// The server does not look at the token, so that guessing and flooding cost it nothing.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/rateLimited``.
    func requireSignIn(_ request: Request, _ context: ServerRequestContext) throws(TidemarkError) {
        guard request.headers[.authorization] != nil else { return }
        try rates?.require(Self.failure(context))
    }

    /// Counts an error if it is the refusal of a token.
    func countFailure(_ error: any Error, of request: Request, _ context: ServerRequestContext) {
        guard (error as? TidemarkError)?.code == .signInNeeded, request.headers[.authorization] != nil else { return }
        rates?.spend(Self.failure(context))
    }

    private static func failure(_ context: ServerRequestContext) -> RateLimiter.Cost {
        RateLimiter.Cost(
            .failedSignInsPerAddress,
            of: ClientNetwork.name(of: context.clientAddress)
        )
    }

    /// Returns a request whose body's bytes count when they arrive, if the sender does not state their number.
    func counting(_ request: Request, by caller: Caller, _ context: ServerRequestContext) -> Request {
        guard let rates, request.method == .post, Self.length(of: request) == nil else { return request }
        var request = request
        let user = user(caller, context)
        let body = request.body
        request.body = RequestBody(
            asyncSequence: body.map { piece in
                rates.spend(.init(.uploadBytesPerUser, of: user, amount: Int64(piece.readableBytes)))
                return piece
            }
        )
        return request
    }

    private func costs(of request: Request, by caller: Caller, _ context: ServerRequestContext) -> [RateLimiter.Cost] {
        let user = user(caller, context)
        var costs = [RateLimiter.Cost(.requestsPerUser, of: user)]
        let device = Self.device(of: request, by: caller).map { "\(user)\n\($0)" }
        if let device { costs.append(RateLimiter.Cost(.requestsPerDevice, of: device)) }
        if Self.isExpensive(context) { costs.append(RateLimiter.Cost(.snapshotsPerDevice, of: device ?? user)) }
        if request.method == .post {
            // Without a stated length, the bytes count when they arrive, and must leave room for one now.
            costs.append(.init(.uploadBytesPerUser, of: user, amount: Self.length(of: request) ?? 1))
        }
        return costs
    }

    /// The name by which a sender's requests are counted; senders without a token count by their address.
    private func user(_ caller: Caller, _ context: ServerRequestContext) -> String {
        caller.userID ?? "\n\(ClientNetwork.name(of: context.clientAddress))"
    }

    private static func device(of request: Request, by caller: Caller) -> String? {
        if case .user(let user) = caller, let device = user.device { return device }
        return request.uri.queryParameters["device"].map { String($0.prefix(deviceCharactersMax)) }
    }

    private static let deviceCharactersMax = 64

    /// Whether the route makes a snapshot, compares rows, or writes into each zone of the sender.
    private static func isExpensive(_ context: ServerRequestContext) -> Bool {
        guard let path = context.endpointPath else { return false }
        return path.hasSuffix("/snapshot") || path.hasSuffix("/fingerprints") || path.hasPrefix("/devices/")
    }

    private static func length(of request: Request) -> Int64? {
        request.headers[.contentLength].flatMap { Int64($0) }
    }
}

extension HTTPField.Name {
    /// The user to whom the sending device's file belongs, percent-encoded.
    static let tidemarkUser = customName("Tidemark-User")
}
