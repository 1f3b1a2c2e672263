import HTTPTypes
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// Every route of a server with users: a stranger gets nothing from any of them.
@Suite(.timeLimit(.minutes(30))) struct EveryRouteTests {
    /// A route, the decision about its sender, and the status of an answer to a sender with the right.
    private struct Listing {
        let route: String
        let decision: Route.Decision
        let status: Int
    }

    /// Every route; a new one fails the tests until it stands here with its decision.
    private static let listings: [Listing] =
        [
            Listing(route: "GET /sync", decision: .members(.reader), status: 412),
            Listing(route: "POST /sync", decision: .members(.reader), status: 200),
            Listing(route: "POST /fingerprints", decision: .members(.reader), status: 400),
            Listing(route: "GET /events", decision: .members(.reader), status: 200),
            Listing(route: "GET /snapshot", decision: .members(.reader), status: 200),
            Listing(route: "GET /schema", decision: .members(.reader), status: 200),
            Listing(route: "GET /digest", decision: .members(.reader), status: 200),
            Listing(route: "GET /changes", decision: .members(.reader), status: 200),
            Listing(route: "GET /revisions", decision: .members(.reader), status: 200),
            // The rows came with the file, so no change set made revision 1.
            Listing(route: "GET /revisions/{revision}", decision: .members(.reader), status: 404),
            Listing(route: "GET /devices", decision: .members(.owner), status: 200),
            Listing(route: "GET /conflicts", decision: .members(.owner), status: 200),
            Listing(route: "GET /openapi.json", decision: .members(.reader), status: 200),
            Listing(route: "GET /tables", decision: .members(.reader), status: 200),
            Listing(route: "GET /tables/{table}", decision: .members(.reader), status: 200),
            Listing(route: "GET /tables/{table}/{key}", decision: .members(.reader), status: 200),
            Listing(route: "GET /tables/{table}/{key}/history", decision: .members(.reader), status: 200),
            Listing(route: "POST /tables/{table}", decision: .members(.writer), status: 400),
            Listing(route: "PATCH /tables/{table}/{key}", decision: .members(.writer), status: 400),
            Listing(route: "PUT /tables/{table}/{key}", decision: .members(.writer), status: 400),
            Listing(route: "DELETE /tables/{table}/{key}", decision: .members(.writer), status: 428),
            Listing(route: "POST /batch", decision: .members(.writer), status: 400),
            Listing(route: "POST /compare/{table}", decision: .members(.reader), status: 400),
        ].flatMap { listing in
            [
                listing,
                Listing(
                    route: listing.route.replacing(" /", with: " /zones/{zone}/"), decision: listing.decision,
                    status: listing.status),
            ]
        } + [
            Listing(route: "POST /token", decision: .holders, status: 400),
            Listing(route: "DELETE /token", decision: .holders, status: 204),
            Listing(route: "GET /me", decision: .users, status: 200),
            Listing(route: "DELETE /devices/{device}", decision: .users, status: 204),
            Listing(route: "GET /me/events", decision: .users, status: 200),
            Listing(route: "GET /zones", decision: .users, status: 200),
            Listing(route: "POST /zones", decision: .users, status: 400),
            Listing(route: "DELETE /zones/{zone}/devices/{device}", decision: .members(.owner), status: 204),
            Listing(route: "PATCH /zones/{zone}", decision: .members(.owner), status: 400),
            Listing(route: "DELETE /zones/{zone}", decision: .members(.owner), status: 403),
            Listing(route: "GET /zones/{zone}/members", decision: .members(.reader), status: 200),
            Listing(route: "PUT /zones/{zone}/members/{user}", decision: .members(.owner), status: 400),
            Listing(route: "DELETE /zones/{zone}/members/{user}", decision: .members(.reader), status: 403),
            Listing(route: "GET /zones/{zone}/invitations", decision: .members(.owner), status: 200),
            Listing(route: "POST /zones/{zone}/invitations", decision: .members(.owner), status: 400),
            Listing(route: "DELETE /zones/{zone}/invitations/{id}", decision: .members(.owner), status: 204),
            Listing(route: "POST /invitations", decision: .users, status: 400),
            Listing(route: "GET /healthz", decision: .anybody, status: 200),
            Listing(route: "GET /readyz", decision: .anybody, status: 200),
            Listing(route: "GET /metrics", decision: .administrators, status: 200),
            // The client follows the redirection to the page.
            Listing(route: "GET /dashboard", decision: .anybody, status: 200),
            Listing(route: "GET /dashboard/{file}", decision: .anybody, status: 200),
            Listing(route: "GET /client/tidemark.js", decision: .anybody, status: 200),
            // Only a browser gets a page.
            Listing(route: "GET /", decision: .anybody, status: 404),
        ]

    /// The routes of files, which a browser may keep.
    private static let ofFiles: Set = ["/dashboard", "/dashboard/{file}", "/client/tidemark.js"]

    /// The routes that a server without users has, too.
    private static let ofEveryServer = Set(
        listings.filter {
            [.members(.reader), .members(.writer)].contains($0.decision) && !$0.route.contains("/members")
        }
        .map(\.route)
            + ["/devices", "/conflicts"].flatMap { ["GET \($0)", "GET /zones/{zone}\($0)"] }
            + ["", "/zones/{zone}"].map { "DELETE \($0)/devices/{device}" }
            + ["GET /healthz", "GET /readyz", "GET /metrics", "GET /"] + ofFiles.map { "GET \($0)" }
    )

    private static func name(_ route: Route) -> String { "\(route.method.rawValue) \(route.path)" }

    private static func path(_ route: Route, zone: String = "main") -> String {
        let path = route.path.replacing("{zone}", with: zone).replacing("{user}", with: "anna")
        return path.replacing("{id}", with: "23456789").replacing("{file}", with: "app.js")
            .replacing("{table}", with: "notes").replacing("{key}", with: "1").replacing("{revision}", with: "1")
    }

    @Test func `every route of the table is listed with its decision, and every path is told to the lost`() async throws
    {
        let guarded = try await GuardedServer()
        let routes = guarded.routes()
        let decisions = Dictionary(routes.map { (Self.name($0), $0.decision) }) { first, _ in first }
        #expect(decisions.count == routes.count, "a route is there twice")
        #expect(decisions == Dictionary(uniqueKeysWithValues: Self.listings.map { ($0.route, $0.decision) }))
        #expect(routes.allSatisfy { RouteTable.summary.contains($0.path) })
        let local = guarded.routes(gate: LocalGate())
        #expect(Set(local.map(Self.name)) == Set(Self.ofEveryServer))
    }

    @Test func `a stranger gets 401, 403 or 404 from every route and method, and changes nothing`() async throws {
        let guarded = try await GuardedServer()
        let strangers = try await guarded.strangers()
        let rows = try await guarded.service.digest(zone: "main")
        let users = try await guarded.bench.content()
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            for route in guarded.routes() {
                for method in route.methods {
                    for stranger in strangers {
                        let status: Int
                        switch route.decision {
                        case .anybody: status = ["/dashboard": 308, "/": 404][route.path] ?? 200
                        case .members: status = stranger.statuses.members
                        // A stranger to a zone may be a user.
                        case .users:
                            guard let refusal = stranger.statuses.users else { continue }
                            status = refusal
                        case .administrators: status = stranger.statuses.administrators
                        // Any other valid token may be exchanged or ended by its holder.
                        case .holders:
                            guard let refusal = stranger.statuses.holders else { continue }
                            status = refusal
                        }
                        let answer = try await server.send(
                            HTTPMethod(rawValue: method.rawValue), Self.path(route),
                            headers: stranger.authorization.map { ["Authorization": $0] } ?? [:],
                            body: method == .post ? .bytes(.init(string: Self.edit)) : nil)
                        let what = "\(method) \(route.path) by \(stranger.name)"
                        #expect(answer.status == status, "\(what)")
                        let challenge = answer.headers.first(name: "WWW-Authenticate")
                        #expect(challenge == (status == 401 ? "Bearer" : nil), "\(what)")
                        let cache = Self.ofFiles.contains(route.path) ? "no-cache" : "no-store"
                        #expect(answer.headers.first(name: "Cache-Control") == cache, "\(what)")
                        #expect(Self.ofFiles.contains(route.path) || !answer.text.contains("first"), "\(what)")
                    }
                }
            }
        }
        #expect(try await guarded.service.digest(zone: "main") == rows)
        #expect(try await guarded.bench.content() == users)
    }

    private static let edit =
        #"{"maxRevision":1,"device":"d","changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"evil"}}}}]}"#

    @Test func `the body of a stranger is not read on any route`() async throws {
        let guarded = try await GuardedServer()
        let strangers = try await guarded.strangers()
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            for route in guarded.routes() where route.method == .post {
                let isAboutZone = route.decision != .holders && route.decision != .users
                for stranger in strangers where isAboutZone || stranger.statuses.members == 401 {
                    let answer = try await server.wire("POST", Self.path(route), authorization: stranger.authorization)
                    let what = "\(route.path) by \(stranger.name)"
                    #expect(answer.hasPrefix("HTTP/1.1 \(stranger.statuses.members) "), "\(what)")
                    #expect(!answer.contains("100 Continue"), "\(what)")
                    #expect(answer.lowercased().contains("connection: close"), "\(what)")
                }
            }
        }
    }

    @Test func `a zone of others and a zone that is not there give the same bytes`() async throws {
        let guarded = try await GuardedServer()
        let strangers = try await guarded.strangers().filter { $0.name != "former" }
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            for route in guarded.routes() where route.path.contains("{zone}") {
                for method in route.methods {
                    for stranger in strangers {
                        let there = try await server.wire(
                            method.rawValue, Self.path(route, zone: "main"), authorization: stranger.authorization)
                        let absent = try await server.wire(
                            method.rawValue, Self.path(route, zone: "nowhere%2Fat%00all"),
                            authorization: stranger.authorization)
                        #expect(there == absent, "\(method) \(route.path) by \(stranger.name)")
                        #expect(there.hasPrefix("HTTP/1.1 \(stranger.statuses.members) "))
                    }
                }
            }
        }
    }

    @Test func `a sender with the right gets an answer from every route`() async throws {
        let guarded = try await GuardedServer()
        try await guarded.bench.add("reader", role: .reader)
        try await guarded.bench.add("root", role: nil)
        try await guarded.bench.add("owner", role: .owner)
        let reader = try await guarded.bench.device("phone", of: "reader")
        let owner = try await guarded.bench.device("phone", of: "owner")
        let root = try await guarded.bench.issue(.administrator, to: "root")
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            for route in guarded.routes() {
                let listing = try #require(Self.listings.first { $0.route == Self.name(route) })
                let token: String
                switch route.decision {
                case .administrators: token = root
                case .holders: token = try await guarded.bench.device("other", of: "reader")
                case .members(.owner), .members(.writer): token = owner
                case .members, .users, .anybody: token = reader
                }
                let status = try await server.head(
                    HTTPMethod(rawValue: route.method.rawValue), Self.path(route), authorization: "bearer \(token)",
                    body: route.method == .post ? #"{"maxRevision":1}"# : nil)
                #expect(status == listing.status, "\(listing.route)")
            }
            for policy in [AccessPolicy.ownUsers, AccessPolicy(hasOwnUsers: false)] {
                guarded.bench.gate.follow(policy)
                #expect(try await server.head(.GET, "/metrics", authorization: "Bearer \(root)") == 200)
            }
            let root = try await server.head(.GET, "/digest", authorization: "Bearer \(root)")
            #expect(root == 403, "an administrator reads the metrics, and nothing else")
        }
    }

    @Test func `a method that no route has is refused alike for every sender`() async throws {
        let guarded = try await GuardedServer()
        let strangers = try await guarded.strangers()
        let owner = try await guarded.bench.device("phone", of: "anna")
        let senders = strangers.map(\.authorization) + ["Bearer \(owner)"]
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            for path in Set(guarded.routes().map { Self.path($0) }) {
                var answers: Set<String> = []
                for sender in senders { answers.insert(try await server.wire("TRACE", path, authorization: sender)) }
                #expect(answers.count == 1)
                #expect(answers.first?.hasPrefix("HTTP/1.1 405 ") == true)
            }
        }
    }

    // MARK: POST and DELETE /token

    @Test func `a device exchanges, renews and ends its token over HTTP`() async throws {
        let guarded = try await GuardedServer()
        try await guarded.bench.add("anna")
        let signIn = try await guarded.bench.issue(.signIn, to: "anna")
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            func exchange(_ token: String, _ body: String) async throws -> TestServer.Answer {
                try await server.send(
                    .POST, "/token", headers: ["Authorization": "Bearer \(token)"], body: .bytes(.init(string: body)))
            }
            func token(_ answer: TestServer.Answer) throws -> String {
                let pattern = /{"expires":(\d+),"token":"(tmd_\w+)","user":"anna"}\n/
                let match = try #require(answer.text.wholeMatch(of: pattern))
                #expect(Int64(match.output.1) == guarded.bench.now + Tokens.deviceDuration)
                #expect(answer.headers.first(name: "Cache-Control") == "no-store")
                return String(match.output.2)
            }
            for body in [
                "", "{}", "[]", #"{"device":1}"#, #"{"device":""}"#, #"{"device":"a\u0000"}"#,
                #"{"device":"\#(String(repeating: "d", count: 65))"}"#,
            ] {
                let answer = try await exchange(signIn, body)
                #expect(answer.status == 400, "\(body)")
                #expect(try answer.error.code == .malformedRequest)
            }
            let large = try await exchange(signIn, String(repeating: " ", count: 4_097))
            #expect(large.status == 413)
            let first = try token(try await exchange(signIn, #"{"device":"phone"}"#))
            #expect(try await server.head(.GET, "/digest", authorization: "Bearer \(first)") == 200)
            #expect(try await exchange(signIn, #"{"device":"thief"}"#).status == 401)
            let second = try token(try await exchange(first, #"{"device":"phone"}"#))
            #expect(try await server.head(.GET, "/digest", authorization: "Bearer \(second)") == 200)
            #expect(try await server.head(.DELETE, "/token", authorization: "Bearer \(second)") == 204)
            #expect(try await server.head(.DELETE, "/token", authorization: "Bearer \(second)") == 401)
            #expect(try await server.head(.GET, "/digest", authorization: "Bearer \(second)") == 401)
        }
    }
}
