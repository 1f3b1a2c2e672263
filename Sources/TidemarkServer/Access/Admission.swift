internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// Decides who sends a request, and whether the sender may send one more now, before its body is read.
struct Admission: Sendable {
    let gate: any AccessGate
    /// The rates; nil for a server without limits.
    let rates: RequestRates?
    /// The largest body that a client may announce, in bytes.
    let bodyBytesMax: Int

    /// Returns the sender of a request, and takes the request's costs; throws `signInNeeded` or `rateLimited`.
    func caller(_ request: Request, _ context: ServerRequestContext) async throws -> Caller {
        let caller = try await decide(request, context) { try await gate.caller(token: $0) }
        try admit(request, by: caller, context)
        return caller
    }

    /// Returns the sender's access to a zone, and takes the request's costs before the gate looks at the zone.
    func access(to zone: String, _ request: Request, _ context: ServerRequestContext) async throws -> ZoneAccess {
        try await decide(request, context) { token in
            try await gate.access(to: zone, token: token) { try admit(request, by: $0, context) }
        }
    }

    /// Runs a decision about the request's token, and counts a refusal of it.
    private func decide<Decision>(
        _ request: Request, _ context: ServerRequestContext, by decision: (_ token: String?) async throws -> Decision
    ) async throws -> Decision {
        try requireSignIn(request, context)
        do { return try await decision(BearerToken.text(in: request)) } catch {
            countFailure(error, of: request, context)
            throw error
        }
    }

    /// Admits a sender whose user and rates permit the request, and takes its costs.
    private func admit(_ request: Request, by caller: Caller, _ context: ServerRequestContext) throws(TidemarkError) {
        try Self.requireUser(of: request, caller)
        if let length = request.announcedLength, length > bodyBytesMax { throw BodyReader.tooLarge(bodyBytesMax).error }
        guard let rates else { return }
        // The bytes count when they arrive: who announces them and goes away has used nothing.
        if let upload = upload(of: request, by: caller, context) { try rates.require(upload) }
        try rates.take(costs(of: request, by: caller, context))
    }

    /// Refuses a device whose file is another user's than its token, or it would send the former user's changes.
    private static func requireUser(of request: Request, _ caller: Caller) throws(TidemarkError) {
        guard let stated = request.headers[.tidemarkUser], case .user(let user) = caller,
            stated.removingPercentEncoding != user.id
        else { return }
        throw TidemarkError(
            .accountMismatch, "The device's file belongs to another user than the token.",
            fix: "Sign in as the user of the file, or use another file.")
    }

    /// Refuses a request with a token, unless the server remembers it, if too many tokens of its address were refused.
    ///
    /// So guessing and flooding cost the server nothing, and the devices behind one address that it knows go on.
    func requireSignIn(_ request: Request, _ context: ServerRequestContext) throws(TidemarkError) {
        guard request.headers[.authorization] != nil, let rates else { return }
        do { try rates.require(Self.failure(context)) } catch {
            // A header that is no token is none that the server remembers.
            guard let token = try? BearerToken.text(in: request), gate.remembers(token: token) else { throw error }
        }
    }

    func countFailure(_ error: any Error, of request: Request, _ context: ServerRequestContext) {
        guard (error as? TidemarkError)?.code == .signInNeeded, request.headers[.authorization] != nil else { return }
        rates?.spend(Self.failure(context))
    }

    private static func failure(_ context: ServerRequestContext) -> RateLimiter.Cost {
        RateLimiter.Cost(.failedSignInsPerAddress, of: ClientNetwork.name(of: context.clientAddress))
    }

    /// Returns a request whose body's bytes count when they arrive, and end with a refusal if they are too many.
    func counting(_ request: Request, by caller: Caller, _ context: ServerRequestContext) -> Request {
        guard let rates, upload(of: request, by: caller, context) != nil else { return request }
        var request = request
        let user = user(caller, context)
        let body = request.body
        request.body = RequestBody(
            asyncSequence: body.map { piece in
                try rates.spendWithinDebt(.uploadBytesPerUser, of: user, amount: Int64(piece.readableBytes))
                return piece
            }
        )
        return request
    }

    /// What must be free for a request's body: its stated length, or one byte without one; nil without a body.
    private func upload(of request: Request, by caller: Caller, _ context: ServerRequestContext) -> RateLimiter.Cost? {
        let length = request.announcedLength.map(Int64.init) ?? (Self.bodiless.contains(request.method) ? 0 : 1)
        guard length > 0 else { return nil }
        return RateLimiter.Cost(.uploadBytesPerUser, of: user(caller, context), amount: length)
    }

    private static let bodiless: Set<HTTPRequest.Method> = [.get, .head, .delete, .options]

    private func costs(of request: Request, by caller: Caller, _ context: ServerRequestContext) -> [RateLimiter.Cost] {
        let user = user(caller, context)
        var costs = [RateLimiter.Cost(.requestsPerUser, of: user)]
        let device = Self.device(of: request, by: caller).map { "\(user)\n\($0)" }
        if let device { costs.append(RateLimiter.Cost(.requestsPerDevice, of: device)) }
        if Self.isExpensive(context) {
            // A device that no token proves can have any number of names.
            let proven = Self.provenDevice(of: caller).map { "\(user)\n\($0)" }
            costs.append(RateLimiter.Cost(.snapshotsPerDevice, of: proven ?? user))
        }
        return costs
    }

    /// The name by which a sender's requests are counted; senders without a token count by their address.
    private func user(_ caller: Caller, _ context: ServerRequestContext) -> String {
        caller.userID ?? "\n\(ClientNetwork.name(of: context.clientAddress))"
    }

    private static func device(of request: Request, by caller: Caller) -> String? {
        if let device = provenDevice(of: caller) { return device }
        return request.query("device").map { String($0.prefix(deviceCharactersMax)) }
    }

    private static func provenDevice(of caller: Caller) -> String? {
        guard case .user(let user) = caller else { return nil }
        return user.device
    }

    private static let deviceCharactersMax = 64

    /// Whether the route reads all rows of a zone, compares rows, or writes into each zone of the sender.
    private static func isExpensive(_ context: ServerRequestContext) -> Bool {
        guard let path = context.endpointPath else { return false }
        return expensive.contains { path.hasSuffix($0) } || path.hasPrefix("/devices/")
    }

    private static let expensive = ["/snapshot", "/fingerprints", "/digest", "/compare/{table}"]
}

extension HTTPField.Name {
    /// The user to whom the sending device's file belongs, percent-encoded.
    static let tidemarkUser = customName("Tidemark-User")
}

/// The access of a request that lasts: a body can take minutes to arrive, and an answer can wait for the zone.
///
/// The gate decides when a request begins. This asks it again, so that nothing that was written after the end of the
/// sender's access goes out, and nothing that arrives after it is written. While no right changes, each question reads
/// one number.
struct Standing: Sendable {
    let gate: any AccessGate
    let access: ZoneAccess
    let token: String?

    /// Returns a request that fails after the last byte of its body if the sender's access has ended.
    func confirming(bodyOf request: Request) -> Request {
        guard request.method != .get, request.method != .head else { return request }
        var request = request
        request.body = RequestBody(asyncSequence: ConfirmedBody(body: request.body, standing: self))
        return request
    }

    /// Runs a route, and returns its answer if the sender's access has not ended, or if the answer has no content.
    func confirming(_ answer: () async throws -> Response) async throws -> Response {
        let response: Response
        do { response = try await answer() } catch {
            // A refused write tells the record as it is now.
            try await confirm()
            throw error
        }
        if response.status != .noContent, response.status != .notModified { try await confirm() }
        return response
    }

    /// - Throws: The refusal if the sender's access has ended since the decision.
    fileprivate func confirm() async throws {
        if planted(PlantedBug.forgetsCaller) || planted(PlantedBug.snapshotOfAnybody) { return }
        try await gate.confirm(access, token: token)
    }
}

/// A body after whose last byte the gate is asked again.
private struct ConfirmedBody: AsyncSequence, Sendable {
    let body: RequestBody
    let standing: Standing

    struct AsyncIterator: AsyncIteratorProtocol {
        var pieces: RequestBody.AsyncIterator
        let standing: Standing

        mutating func next() async throws -> ByteBuffer? { try await next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async throws(any Error) -> ByteBuffer? {
            if let piece = try await pieces.next(isolation: actor) { return piece }
            try await standing.confirm()
            return nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(pieces: body.makeAsyncIterator(), standing: standing) }
}
