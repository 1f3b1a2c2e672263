internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// The server's paths, their routes, and the refusal of wrong methods.
struct RouteTable {
    /// Answers a request about the server itself, from anybody.
    typealias Answer = @Sendable (Request, ServerRequestContext) async throws -> Response
    /// Answers a request about a zone, after the decision that its sender may send it.
    typealias ZoneAnswer = @Sendable (Request, ServerRequestContext, ZoneAccess) async throws -> Response

    /// The zone of paths without a zone.
    static let defaultZone = "main"
    /// The list of paths for the error about an unknown path.
    static let summary = """
        POST /sync, GET /sync, POST /fingerprints, GET /events, GET /snapshot, GET /schema, GET /digest, \
        GET /healthz, GET /readyz and GET /metrics; \
        for other zones than main POST and GET /zones/{zone}/sync, \
        POST /zones/{zone}/fingerprints, GET /zones/{zone}/events, GET /zones/{zone}/snapshot, \
        GET /zones/{zone}/schema and GET /zones/{zone}/digest
        """

    let service: any SyncService
    let gate: any AccessGate
    let bodyReader: BodyReader
    let memory: InFlightMemory
    let readiness: Readiness
    let storeCheck: StoreCheck
    let exposition: @Sendable () -> String

    /// Adds every route to a router.
    func add(to router: Router<ServerRequestContext>) {
        let compressedAnswers = CompressedAnswers()
        let sync = SyncRoute(
            service: service,
            bodyReader: bodyReader,
            memory: memory,
            compressedAnswers: compressedAnswers
        )
        let events = EventsRoute(service: service)
        let snapshot = SnapshotRoute(service: service)
        let schema = SchemaRoute(service: service, memory: memory, compressedAnswers: compressedAnswers)
        let fingerprints = FingerprintsRoute(service: service, bodyReader: bodyReader, memory: memory)
        let digest = DigestRoute(service: service, memory: memory)
        for prefix in ["", "/zones/:zone"] {
            add("\(prefix)/sync", to: router, get: zone(sync.news), post: zone(sync.answer))
            add("\(prefix)/fingerprints", to: router, post: zone(fingerprints.answer))
            add("\(prefix)/events", to: router, get: zone(events.answer))
            add("\(prefix)/snapshot", to: router, get: zone(snapshot.answer))
            add("\(prefix)/schema", to: router, get: zone(schema.answer))
            add("\(prefix)/digest", to: router, get: zone(digest.answer))
        }
        if let issuer = gate as? any TokenIssuer {
            let token = TokenRoute(issuer: issuer, bodyReader: bodyReader, memory: memory)
            add("/token", to: router, post: token.exchange, delete: token.revoke)
        }
        add("/healthz", to: router, get: HealthRoute().answer)
        let ready = ReadyRoute(store: storeCheck, readiness: readiness)
        add("/readyz", to: router, get: ready.answer)
        add("/metrics", to: router, get: administration(MetricsRoute(exposition: exposition).answer))
    }

    /// Makes a route about a zone, which answers after the gate has admitted the sender to the zone.
    private func zone(_ answer: @escaping ZoneAnswer) -> Answer {
        { request, context in
            let access = try await decide(request) { caller in
                try await gate.access(of: caller, to: context.zone)
            }
            return try await answer(request, context, access)
        }
    }

    /// Makes a route about the whole server, which answers an administrator only.
    private func administration(_ answer: @escaping Answer) -> Answer {
        { request, context in
            try await decide(request) { caller in
                guard caller.isAdministrator else {
                    throw TidemarkError(
                        .notAllowed,
                        "Only an administrator may read this.",
                        fix: "Send a token that `tidemark token add --administrator` issued."
                    )
                }
            }
            return try await answer(request, context)
        }
    }

    /// Decides about the sender before the server reads the body; a refused body is not read.
    private func decide<Decision: Sendable>(
        _ request: Request,
        _ decision: (Caller) async throws -> Decision
    ) async throws -> Decision {
        do { return try await decision(gate.caller(token: BearerToken.text(in: request))) } catch let error
            as TidemarkError
        {
            var refusal = Refusal(error)
            refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
            throw refusal
        }
    }

    /// Adds one path, and a refusal for every other method.
    private func add(
        _ path: String,
        to router: Router<ServerRequestContext>,
        get: Answer? = nil,
        post: Answer? = nil,
        delete: Answer? = nil
    ) {
        // The router adds `HEAD` for each `GET`.
        var allowed: [HTTPRequest.Method] = []
        if let get {
            router.on(RouterPath(path), method: .get, use: get)
            allowed += [.get, .head]
        }
        if let post {
            router.on(RouterPath(path), method: .post, use: post)
            allowed.append(.post)
        }
        if let delete {
            router.on(RouterPath(path), method: .delete, use: delete)
            allowed.append(.delete)
        }
        let allow = allowed.map(\.rawValue).joined(separator: ", ")
        let suggestion: HTTPRequest.Method = post == nil ? .get : .post
        for other in Self.methods where !allowed.contains(other) {
            router.on(RouterPath(path), method: other) { request, _ -> Response in
                throw try await methodRefusal(request, suggesting: suggestion, allow: allow)
            }
        }
    }

    private func methodRefusal(_ request: Request, suggesting suggestion: HTTPRequest.Method, allow: String)
        async throws -> Refusal
    {
        var refusal = Refusal(
            .methodNotAllowed,
            "\(request.uri.path) does not answer to \(request.method).",
            fix: "Use \(suggestion) \(request.uri.path).",
            headers: [.allow: allow]
        )
        refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
        return refusal
    }

    private static let methods: [HTTPRequest.Method] = [
        .get, .head, .post, .put, .patch, .delete, .options, .trace, .connect,
    ]
}

extension RouteTable {
    /// The route name of unknown paths, in logs and metrics.
    static let unknown = "unknown"
    private static let zonePrefix = "/zones/"
    private static let zoneMax = 64

    /// Returns a route's name for logs and metrics; there are only as many names as routes.
    static func route(_ endpoint: String?) -> String {
        guard let endpoint, endpoint.hasPrefix("/") else { return unknown }
        return endpoint
    }

    /// Returns the zone in a path, not decoded; nil if the route has no zone.
    static func zone(in path: String, of route: String) -> Substring? {
        guard route.hasPrefix(zonePrefix) else {
            let isServerRoute = ["/healthz", "/readyz", "/metrics", "/token", unknown].contains(route)
            return isServerRoute ? nil : Substring(defaultZone)
        }
        return path.dropFirst(zonePrefix.count).prefix { $0 != "/" }.prefix(zoneMax)
    }
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
