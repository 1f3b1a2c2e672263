internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkDashboard
internal import TidemarkEngine

/// The server's paths, their routes, and the refusal of wrong methods.
struct RouteTable {
    static let defaultZone = "main"
    /// The list of paths for the error about an unknown path.
    static let summary = """
        POST /sync, GET /sync, POST /fingerprints, GET /events, GET /snapshot, GET /schema, GET /digest, \
        GET /changes, GET /revisions, GET /revisions/{revision}, GET /devices, DELETE /devices/{device}, \
        GET /conflicts, GET /openapi.json, \
        GET /tables, GET and POST /tables/{table}, GET, PATCH, PUT and DELETE /tables/{table}/{key}, \
        GET /tables/{table}/{key}/history, POST /batch, POST /compare/{table}, \
        GET /healthz, GET /readyz, GET /metrics, GET /dashboard, GET /dashboard/{file} and GET /client/tidemark.js; \
        for other zones than main POST and GET /zones/{zone}/sync, \
        POST /zones/{zone}/fingerprints, GET /zones/{zone}/events, GET /zones/{zone}/snapshot, \
        GET /zones/{zone}/schema, GET /zones/{zone}/digest, /zones/{zone}/changes, /zones/{zone}/revisions, \
        /zones/{zone}/revisions/{revision}, /zones/{zone}/devices, /zones/{zone}/devices/{device}, \
        /zones/{zone}/conflicts, \
        /zones/{zone}/openapi.json, /zones/{zone}/tables, /zones/{zone}/tables/{table}, \
        /zones/{zone}/tables/{table}/{key}, /zones/{zone}/tables/{table}/{key}/history, /zones/{zone}/batch \
        and /zones/{zone}/compare/{table}; \
        on a server with users also POST and DELETE /token, GET /me, DELETE /devices/{device}, GET /me/events, \
        GET and POST /zones, \
        PATCH and DELETE /zones/{zone}, GET /zones/{zone}/members, PUT and DELETE /zones/{zone}/members/{user}, \
        GET and POST /zones/{zone}/invitations, DELETE /zones/{zone}/invitations/{id} and POST /invitations
        """

    static let paths = "It has \(summary)."
    let service: any SyncService
    let gate: any AccessGate
    let rates: RequestRates?
    let bodyReader: BodyReader
    let memory: InFlightMemory
    let readiness: Readiness
    let storeCheck: StoreCheck
    let firstSnapshots: FirstSnapshots
    let accessWatch: AccessWatch
    let pages: WebPages
    let exposition: @Sendable () -> String
    private var admission: Admission { Admission(gate: gate, rates: rates, bodyBytesMax: bodyReader.bytesMax) }

    /// Every route of the server, each with its decision about the sender.
    var routes: [Route] {
        let describedRoutes = zoneRoutes + writeRoutes
        let zoneRoutes = describedRoutes + [documentRoute(about: describedRoutes + pageRoutes)]
        return zoneRoutes
            + zoneRoutes.map { Route($0.method, "\(Self.zonePrefix){zone}\($0.path)", for: $0.answer) } + tokenRoutes
            + forgetRoutes + userRoutes + serverRoutes + pageRoutes + rootRoutes
    }

    /// The routes by which an owner forgets a device; with users, the path without a zone is for one's own devices.
    private var forgetRoutes: [Route] {
        let reports = ReportRoutes(service: service, bodyReader: bodyReader, memory: memory)
        let forget = Route.Answer.members(.owner, reports.forget)
        let inZone = Route(.delete, "\(Self.zonePrefix){zone}/devices/{device}", for: forget)
        return gate is MemberGate ? [inZone] : [inZone, Route(.delete, "/devices/{device}", for: forget)]
    }

    /// The routes about a zone; readers send `POST /sync`, too, to pull, and the engine refuses their change sets.
    private var zoneRoutes: [Route] {
        let compressedAnswers = CompressedAnswers()
        let sync = SyncRoute(
            service: service, bodyReader: bodyReader, memory: memory, compressedAnswers: compressedAnswers)
        let events = EventsRoute(service: service, watch: accessWatch)
        let snapshot = SnapshotRoute(service: service, firstSnapshots: firstSnapshots)
        let records = RecordsRoute(service: service, memory: memory)
        let changes = ChangesRoute(service: service, memory: memory, watch: accessWatch)
        let reports = ReportRoutes(
            service: service, bodyReader: bodyReader, memory: memory, compressedAnswers: compressedAnswers)
        return [
            Route(.get, "/sync", for: .members(.reader, sync.news)),
            Route(.post, "/sync", for: .members(.reader, sync.answer { .sync($0) })),
            Route(.post, "/fingerprints", for: .members(.reader, sync.answer { .fingerprints($0) })),
            Route(.get, "/events", for: .members(.reader, events.answer)),
            Route(.get, "/snapshot", for: .members(.reader, snapshot.answer)),
            Route(.get, "/schema", for: .members(.reader, reports.schema)),
            Route(.get, "/digest", for: .members(.reader, reports.digest)),
            Route(.get, "/changes", for: .members(.reader, changes.answer)),
            Route(.get, "/revisions", for: .members(.reader, reports.revisions)),
            Route(.get, "/revisions/{revision}", for: .members(.reader, reports.revision)),
            Route(.get, "/devices", for: .members(.owner, reports.devices)),
            Route(.get, "/conflicts", for: .members(.owner, reports.conflicts)),
            Route(.get, "/tables", for: .members(.reader, reports.tables)),
            Route(.get, "/tables/{table}", for: .members(.reader, records.page)),
            Route(.get, "/tables/{table}/{key}", for: .members(.reader, records.record)),
            Route(.get, "/tables/{table}/{key}/history", for: .members(.reader, reports.history)),
            Route(.post, "/compare/{table}", for: .members(.reader, reports.compare)),
        ]
    }

    /// The routes by which clients without rows write.
    private var writeRoutes: [Route] {
        let write = WriteRoute(service: service, bodyReader: bodyReader, memory: memory)
        let batch = BatchRoute(service: service, bodyReader: bodyReader, memory: memory)
        return [
            Route(.post, "/tables/{table}", for: .members(.writer, write.answer)),
            Route(.patch, "/tables/{table}/{key}", for: .members(.writer, write.answer)),
            Route(.put, "/tables/{table}/{key}", for: .members(.writer, write.answer)),
            Route(.delete, "/tables/{table}/{key}", for: .members(.writer, write.answer)),
            Route(.post, "/batch", for: .members(.writer, batch.answer)),
        ]
    }

    /// The route that describes the others for clients without rows.
    private func documentRoute(about routes: [Route]) -> Route {
        let document = OpenAPIRoute(service: service, memory: memory, about: routes)
        return Route(.get, OpenAPIRoute.path, for: .members(.reader, document.answer))
    }

    private var tokenRoutes: [Route] {
        guard let issuer = gate as? any TokenIssuer else { return [] }
        let body = SmallBody(durationMax: bodyReader.durationMax, memory: memory)
        let token = TokenRoute(issuer: issuer, body: body)
        return [
            Route(.post, "/token", for: .holders(issuer, token.exchange)),
            Route(.delete, "/token", for: .holders(issuer, token.revoke)),
        ]
    }

    private var userRoutes: [Route] {
        guard let gate = gate as? MemberGate else { return [] }
        let account = Route(
            .get, "/me",
            for: .users { request, _, user in
                try await SmallBody.answer(try await gate.account(of: user.id), to: request)
            })
        let forget = Route(
            .delete, "/devices/{device}",
            for: .users { [service] _, context, user in
                let device = try context.name("device")
                // The tokens end first, so that a server that is killed between the two is asked again.
                let zones = try await gate.signOut(device: device, of: user.id)
                try await service.forget(device: device, of: user.id, in: zones)
                return SmallBody.done
            })
        return [account, forget] + (gate.registry.map { sharingRoutes($0, gate) } ?? [])
    }

    /// The routes of a server that makes zones while it runs.
    private func sharingRoutes(_ registry: ZoneRegistry, _ gate: MemberGate) -> [Route] {
        let body = SmallBody(durationMax: bodyReader.durationMax, memory: memory)
        let zones = ZonesRoute(registry: registry, service: service, body: body)
        let members = MembersRoute(registry: registry, body: body)
        let events = UserEventsRoute(registry: registry, members: gate, service: service, watch: accessWatch)
        let zone = "\(Self.zonePrefix){zone}"
        return [
            Route(.get, "/me/events", for: .users(events.answer)),
            Route(.get, "/zones", for: .users(zones.list)),
            Route(.post, "/zones", for: .users(zones.make)),
            Route(.patch, zone, for: .members(.owner, zones.retitle)),
            Route(.delete, zone, for: .members(.owner, zones.delete)),
            Route(.get, "\(zone)/members", for: .members(.reader, members.list)),
            Route(.put, "\(zone)/members/{user}", for: .members(.owner, members.set)),
            Route(.delete, "\(zone)/members/{user}", for: .members(.reader, members.remove)),
            Route(.get, "\(zone)/invitations", for: .members(.owner, members.invitations)),
            Route(.post, "\(zone)/invitations", for: .members(.owner, members.invite)),
            Route(.delete, "\(zone)/invitations/{id}", for: .members(.owner, members.revoke)),
            Route(.post, "/invitations", for: .users(members.accept)),
        ]
    }

    private var serverRoutes: [Route] {
        let ready = ReadyRoute(service: service, admission: admission, store: storeCheck, readiness: readiness)
        return [
            Route(.get, "/healthz", for: .anybody { _, _ in SmallBody.words("ok\n") }),
            Route(.get, "/readyz", for: .anybody(ready.answer)),
            Route(
                .get, "/metrics",
                for: .administrators { [exposition] _, _ in
                    SmallBody.words(exposition(), type: PrometheusText.contentType)
                }),
        ]
    }

    /// The routes of the files that a browser loads.
    private var pageRoutes: [Route] {
        let route = DashboardRoute(pages: pages)
        let client = Route(.get, "/client/\(WebPages.clientName)", for: .anybody(route.client))
        guard pages.hasDashboard else { return [client] }
        return [
            client,
            Route(.get, "/dashboard", for: .anybody(route.start)),
            Route(.get, "/dashboard/{file}", for: .anybody(route.file)),
        ]
    }

    /// The route of somebody who opens the server's address in a browser.
    private var rootRoutes: [Route] {
        pages.hasDashboard ? [Route(.get, "/", for: .anybody(DashboardRoute(pages: pages).root))] : []
    }

    /// Adds every route to a router, and to each path a refusal of every other method.
    func add(to router: Router<ServerRequestContext>) {
        let sender = RouteGuard(admission: admission)
        let routes = routes
        for route in routes {
            // The router adds `HEAD` for each `GET`.
            router.on(RouterPath(route.path), method: route.method) { request, context in
                try await sender.respond(to: request, context, by: route.answer)
            }
        }
        for (path, routes) in Dictionary(grouping: routes, by: \.path) {
            refuseOtherMethods(of: path, than: routes.flatMap(\.methods), in: router)
        }
    }

    private func refuseOtherMethods(
        of path: String, than allowed: [HTTPRequest.Method], in router: Router<ServerRequestContext>
    ) {
        let allow = allowed.map(\.rawValue).joined(separator: ", ")
        for other in Self.methods where !allowed.contains(other) {
            router.on(RouterPath(path), method: other) { request, _ -> Response in
                throw try await methodRefusal(request, at: path, allow: allow)
            }
        }
    }

    private func methodRefusal(_ request: Request, at path: String, allow: String) async throws -> Refusal {
        let refusal = Refusal(
            .methodNotAllowed, "\(request.uri.path) does not answer to \(request.method).",
            fix: "It answers to \(allow).\(Self.otherPath(for: request.method, than: path))", headers: [.allow: allow])
        return try await refusal.droppingBody(of: request)
    }

    /// Where a client finds the method that it sent to the other path of a table.
    private static func otherPath(for method: HTTPRequest.Method, than path: String) -> String {
        let changes: [HTTPRequest.Method] = [.patch, .put, .delete]
        if path.hasSuffix("/tables/{table}/{key}"), method == .post { return " POST a new record to its table." }
        if path.hasSuffix("/tables/{table}"), changes.contains(method) { return " Add the key of the record." }
        return ""
    }

    private static let methods = [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY",
    ].compactMap { HTTPRequest.Method($0) }
}

extension RouteTable {
    /// The route name of unknown paths, in logs and metrics.
    static let unknown = "unknown"
    /// The routes about the zone ``defaultZone``.
    private static let zoneRoutes: Set<String> = [
        "/sync", "/fingerprints", "/events", "/snapshot", "/schema", "/digest", "/changes", "/revisions",
        "/revisions/{revision}", "/devices", "/conflicts", "/openapi.json", "/tables", "/tables/{table}",
        "/tables/{table}/{key}", "/tables/{table}/{key}/history", "/batch",
        "/compare/{table}",
    ]
    private static let zonePrefix = "/zones/"

    /// The first parts of the paths for clients without rows, beneath the zone's.
    private static let recordPaths: Set<Substring> = [
        "tables", "batch", "changes", "revisions", "conflicts", "compare", "openapi.json",
    ]

    /// Whether a route is about records, for clients without rows.
    static func isAboutRecords(_ route: String) -> Bool {
        let zone = "\(zonePrefix){zone}"
        let path = route.hasPrefix("\(zone)/") ? route.dropFirst(zone.count) : Substring(route)
        return path == "/devices" || path.split(separator: "/").first.map(recordPaths.contains) ?? false
    }

    /// Returns a route's name for logs and metrics; there are only as many names as routes.
    static func route(_ endpoint: String?) -> String {
        guard let endpoint, endpoint.hasPrefix("/") else { return unknown }
        return endpoint
    }

    /// Returns the zone in a path, not decoded; nil if the route has no zone.
    static func pathZone(in path: String, of route: String) -> Substring? {
        guard route.hasPrefix(zonePrefix) else { return zoneRoutes.contains(route) ? Substring(defaultZone) : nil }
        return path.dropFirst(zonePrefix.count).prefix { $0 != "/" }
    }
}

/// Decides about the sender of each request, before the server reads the request's body.
struct RouteGuard: Sendable {
    let admission: Admission

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
                fix: "Ask an owner of the zone for the role.")
        }
        return access
    }

    private func signedInUser(_ request: Request, _ context: ServerRequestContext) async throws -> Caller.User {
        guard case .user(let user) = try await admission.caller(request, context) else { throw Self.tokenMissing }
        guard !user.isAdministrator else { throw MemberGate.metricsOnly }
        return user
    }

    private func requireAdministrator(_ request: Request, _ context: ServerRequestContext) async throws {
        let caller = try await admission.caller(request, context)
        guard caller != .anonymous else { throw Self.tokenMissing }
        guard caller.isAdministrator else {
            throw TidemarkError(
                .notAllowed, "Only an administrator may read this.",
                fix: "Send a token that `tidemark token add --administrator` issued.")
        }
    }

    private func checkedToken(of request: Request, _ context: ServerRequestContext, by issuer: any TokenIssuer)
        async throws -> String
    {
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
    private func decide<Decision: Sendable>(_ request: Request, _ decision: () async throws -> Decision) async throws
        -> Decision
    {
        do { return try await decision() } catch let error as TidemarkError where error.code.status.kind == .clientError
        {
            throw try await Refusal(error).droppingBody(of: request)
        }
    }

    private static let tokenMissing = TidemarkError(
        .signInNeeded, "The request has no token.", fix: "Send Authorization: Bearer and a token.")
}

extension ServerRequestContext {
    fileprivate var zone: String {
        get throws {
            guard let raw = parameters.get("zone") else { return RouteTable.defaultZone }
            guard let zone = raw.removingPercentEncoding else {
                throw TidemarkError(
                    .unknownZone, "The zone in the path is not valid percent-encoded UTF-8.",
                    fix: "Write /zones/ and then the zone's name, percent-encoded.")
            }
            return zone
        }
    }
}
