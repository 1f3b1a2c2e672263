import AsyncHTTPClient
import Foundation
import NIOHTTP1
import TidemarkCore
import TidemarkEngine
import Testing

/// Two people with private and shared lists, over HTTP.
@Suite struct SharingTests {
    /// A person with a device's token.
    private struct Person {
        let name: String
        let token: String
        let server: TestServer

        func send(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> TestServer.Answer {
            try await server.send(
                method, path, headers: ["Authorization": "Bearer \(token)"],
                body: body.map { .bytes(.init(string: $0)) })
        }

        /// Sends a request that must succeed, and returns a text member of the answer.
        func member(_ name: String, of method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> String
        {
            let answer = try await send(method, path, body)
            try #require((200..<300).contains(answer.status), "\(answer.text)")
            let object = try JSONSerialization.jsonObject(with: Data(answer.text.utf8)) as? [String: Any]
            return try #require(object?[name] as? String, "\(answer.text)")
        }

        func write(_ text: String, into zone: String) async throws -> Int {
            let change = #"{"notes":{"create":[-1],"attributes":{"-1":{"text":"\#(text)"}}}}"#
            let answer = try await send(.POST, "/zones/\(zone)/sync", #"{"maxRevision":0,"changeSets":[\#(change)]}"#)
            return answer.status
        }
    }

    private static func run(
        open zones: [String: AccessPolicy.ZoneRights] = [:],
        _ body: @escaping @Sendable (Person, Person, TestServer) async throws -> Void
    ) async throws {
        try await runGuarded(open: zones) { anna, ben, server, _ in try await body(anna, ben, server) }
    }

    private static func runGuarded(
        open zones: [String: AccessPolicy.ZoneRights],
        _ body: @escaping @Sendable (Person, Person, TestServer, GuardedServer) async throws -> Void
    ) async throws {
        let guarded = try await GuardedServer()
        try await guarded.bench.add("anna", "ben", role: nil)
        let tokens = try await [
            guarded.bench.device("phone", of: "anna"), guarded.bench.device("phone", of: "ben"),
        ]
        for name in zones.keys { try await guarded.service.makeZone(name) }
        guarded.bench.gate.follow(AccessPolicy(hasOwnUsers: true, zones: zones))
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            let people = zip(["anna", "ben"], tokens).map { Person(name: $0, token: $1, server: server) }
            try await body(people[0], people[1], server, guarded)
        }
    }

    @Test func `a shared list is made, offered by a link, accepted, written by both, and handed over`() async throws {
        try await Self.run { anna, ben, _ in
            let creation = #"{"kind":"shared","title":"Shopping","request":"8d0f"}"#
            let zone = try await anna.member("zone", of: .POST, "/zones", creation)
            #expect(try await anna.member("zone", of: .POST, "/zones", creation) == zone)
            #expect(try await ben.write("too early", into: zone) == 404)
            let offer = #"{"role":"writer"}"#
            let secret = try await anna.member("invitation", of: .POST, "/zones/\(zone)/invitations", offer)
            let acceptance = #"{"invitation":"\#(secret)"}"#
            #expect(try await ben.member("zone", of: .POST, "/invitations", acceptance) == zone)
            #expect(try await anna.write("milk", into: zone) == 200)
            #expect(try await ben.write("bread", into: zone) == 200)
            let list = try await ben.send(.GET, "/zones?kind=shared").text
            #expect(list.contains(#""zone":"\#(zone)""#) && list.contains(#""title":"Shopping""#), "\(list)")
            #expect(list.contains(#""role":"writer""#) && list.contains(#""revision":2"#), "\(list)")
            // A writer shares nothing and removes nobody; an owner hands the list over and leaves.
            #expect(try await ben.send(.POST, "/zones/\(zone)/invitations", offer).status == 403)
            #expect(try await ben.send(.DELETE, "/zones/\(zone)/members/anna").status == 403)
            #expect(try await anna.send(.DELETE, "/zones/\(zone)/members/me").status == 409)
            let handOver = #"{"role":"owner"}"#
            #expect(try await anna.send(.PUT, "/zones/\(zone)/members/ben", handOver).status == 204)
            #expect(try await anna.send(.DELETE, "/zones/\(zone)/members/me").status == 204)
            let refusal = try await anna.send(.POST, "/zones/\(zone)/sync", #"{"maxRevision":0}"#)
            #expect(refusal.status == 403 && refusal.text.contains("accessRevoked"))
            #expect(try await ben.send(.PATCH, "/zones/\(zone)", #"{"title":"Party"}"#).status == 204)
            #expect(try await ben.send(.DELETE, "/zones/\(zone)").status == 204)
            #expect(try await ben.send(.GET, "/zones/\(zone)/schema").status == 410)
        }
    }

    @Test func `nobody becomes a member unasked, and the answer does not tell who is a user`() async throws {
        try await Self.run { anna, ben, server in
            let zone = try await anna.member(
                "zone", of: .POST, "/zones", #"{"kind":"shared","title":"A","request":"1"}"#)
            var answers: [String] = []
            for name in ["ben", "nobody-at-all"] {
                for role in ["reader", "writer", "owner"] {
                    let path = "/zones/\(zone)/members/\(name)"
                    let answer = try await anna.send(.PUT, path, #"{"role":"\#(role)"}"#)
                    #expect(answer.status == 400)
                    answers.append(answer.text)
                }
            }
            #expect(Set(answers).count == 1, "\(answers)")
            #expect(try await !ben.send(.GET, "/zones").text.contains(zone))
            // A former member is asked again, too.
            let secret = try await anna.member(
                "invitation", of: .POST, "/zones/\(zone)/invitations", #"{"role":"reader"}"#)
            #expect(try await ben.send(.POST, "/invitations", #"{"invitation":"\#(secret)"}"#).status == 200)
            #expect(try await anna.send(.PUT, "/zones/\(zone)/members/ben", #"{"role":"writer"}"#).status == 204)
            #expect(try await anna.send(.DELETE, "/zones/\(zone)/members/ben").status == 204)
            #expect(try await anna.send(.PUT, "/zones/\(zone)/members/ben", #"{"role":"writer"}"#).text == answers[0])
        }
    }

    @Test(arguments: ["", "a\u{1B}[31m", "line\nforged", "\u{202E}gnp.exe", "\u{7}", "\u{2028}"])
    func `a title that a terminal would obey is refused when it is set`(title: String) async throws {
        try await Self.run { anna, _, _ in
            let text = try String(decoding: JSONEncoder().encode(title), as: UTF8.self)
            let creation = try await anna.send(.POST, "/zones", #"{"kind":"shared","title":\#(text),"request":"2"}"#)
            #expect(creation.status == 400)
            let zone = try await anna.member(
                "zone", of: .POST, "/zones", #"{"kind":"shared","title":"A","request":"3"}"#)
            let change = try await anna.send(.PATCH, "/zones/\(zone)", #"{"title":\#(text)}"#)
            #expect(change.status == 400 && change.text.contains("control characters"))
        }
    }

    @Test func `everybody's private zone is their own, and nobody else can even see that it exists`() async throws {
        try await Self.run { anna, ben, _ in
            #expect(try await anna.write("anna's secret", into: "~") == 200)
            #expect(try await ben.write("ben's", into: "~") == 200)
            let zone = try await anna.member("zone", of: .GET, "/zones/~/schema")
            #expect(zone != "~")
            let foreign = try await ben.send(.GET, "/zones/\(zone)/snapshot")
            let absent = try await ben.send(.GET, "/zones/z_\(String(repeating: "a", count: 26))/snapshot")
            #expect(foreign.status == 404 && foreign.text == absent.text)
            for path in ["/zones", "/me", "/zones/~/digest", "/zones/~/sync"] {
                let answer = try await ben.send(path.hasSuffix("sync") ? .POST : .GET, path, #"{"maxRevision":0}"#)
                #expect(!answer.text.contains("anna"), "\(path)")
            }
            let invitation = try await anna.send(.POST, "/zones/\(zone)/invitations", #"{"role":"reader"}"#)
            #expect(invitation.status == 403)
        }
    }

    @Test func `a lost phone is forgotten from another device, and can do nothing any more`() async throws {
        let guarded = try await GuardedServer()
        try await guarded.bench.add("anna", role: .writer)
        let tokens = try await [
            guarded.bench.device("lost phone", of: "anna"), guarded.bench.device("laptop", of: "anna"),
        ]
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server async throws in
            let devices = tokens.map { Person(name: "anna", token: $0, server: server) }
            #expect(try await devices[0].write("mine", into: "~") == 200)
            #expect(try await devices[1].send(.GET, "/me").text.contains("lost phone"))
            let zones = try await devices[1].send(.GET, "/zones").text
            #expect(zones.contains(#""revision":1,"role":"writer","zone":"main""#), "the operator's zone: \(zones)")
            #expect(try await devices[1].send(.DELETE, "/devices/lost%20phone").status == 204)
            #expect(try await devices[0].write("the thief's", into: "~") == 401)
            #expect(try await !devices[1].send(.GET, "/me").text.contains("lost phone"))
            #expect(try await devices[1].write("still here", into: "~") == 200)
            // It was forgotten, or never there: the same answer.
            for device in ["lost%20phone", "other"] {
                #expect(try await devices[1].send(.DELETE, "/devices/\(device)").status == 204)
            }
            #expect(try await devices[1].send(.DELETE, "/devices/%00").status == 400)
        }
    }

    @Test func `an unchanged list of zones is answered with 304`() async throws {
        try await Self.run { anna, _, server in
            _ = try await anna.write("one", into: "~")
            let tag = try #require(try await anna.send(.GET, "/zones").headers.first(name: "ETag"))
            let headers: HTTPHeaders = ["Authorization": "Bearer \(anna.token)", "If-None-Match": tag]
            #expect(try await server.send(.GET, "/zones", headers: headers).status == 304)
            _ = try await anna.write("two", into: "~")
            #expect(try await server.send(.GET, "/zones", headers: headers).status == 200)
        }
    }

    @Test(arguments: [
        ("/zones", "{}"), ("/zones", #"{"kind":"private","title":"x","request":"1"}"#),
        ("/zones", #"{"kind":"public","title":"x","request":"1"}"#), ("/zones", #"{"kind":"shared","request":""}"#),
        ("/zones", #"{"kind":"shared","title":"","request":"1"}"#), ("/invitations", "[]"),
        ("/zones", #"{"kind":"shared","title":"\#(String(repeating: "x", count: 256))","request":"1"}"#),
    ]) func `a request of another form makes nothing`(path: String, body: String) async throws {
        try await Self.run { anna, _, _ in
            let answer = try await anna.send(.POST, path, body)
            let list = try await anna.send(.GET, "/zones").text
            #expect(answer.status == 400, "\(answer.text)")
            #expect(list.contains(#""zones":[]"#), "\(list)")
        }
    }

    @Test func `one stream tells of every zone, of new ones, and of none that ended`() async throws {
        try await Self.run { anna, ben, server in
            let first = try await anna.member("zone", of: .POST, "/zones", #"{"kind":"shared","request":"1"}"#)
            let offer = #"{"role":"reader"}"#
            let secret = try await anna.member("invitation", of: .POST, "/zones/\(first)/invitations", offer)
            let stream = try await RawListener.open(server, path: "/me/events", token: ben.token)
            _ = await stream.line(": tidemark")
            _ = try await ben.send(.POST, "/invitations", #"{"invitation":"\#(secret)"}"#)
            let listed = await stream.line("event: ")
            #expect(listed == "event: zones")
            _ = await stream.line("data: {\"version")
            #expect(await stream.line("data: ")?.contains(#""zone":"\#(first)""#) == true)
            _ = try await anna.write("milk", into: first)
            #expect(await stream.line("data: ")?.contains(#""zone":"\#(first)""#) == true)
            _ = try await anna.send(.DELETE, "/zones/\(first)/members/ben")
            let listedAgain = await stream.line("event: ")
            #expect(listedAgain == "event: zones")
            _ = await stream.line("data: {\"version")
            _ = try await anna.write("secret", into: first)
            _ = try await ben.write("own", into: "~")
            let own = try await ben.member("zone", of: .GET, "/zones/~/schema")
            // The next zone that the stream tells of is Ben's own.
            #expect(await stream.line("data: {\"zone")?.contains(#""zone":"\#(own)""#) == true)
            try await stream.close()
        }
    }

    @Test func `a zone that is open to everybody is in the list with its role, and shows its members to none of them`()
        async throws
    {
        let rights = [
            "news": AccessPolicy.ZoneRights(isOpenToAnonymous: true),
            "wiki": AccessPolicy.ZoneRights(everybody: .writer),
        ]
        try await Self.runGuarded(open: rights) { anna, ben, _, guarded in
            #expect(try await anna.write("open", into: "wiki") == 200)
            let list = try await ben.send(.GET, "/zones?kind=public").text
            #expect(list.contains(#""revision":0,"role":"reader","zone":"news""#), "\(list)")
            #expect(list.contains(#""revision":1,"role":"writer","zone":"wiki""#), "\(list)")
            #expect(!list.contains("members"), "\(list)")
            #expect(try await ben.send(.GET, "/zones").text == list)
            #expect(try await ben.send(.GET, "/zones?kind=shared").text.contains(#""zones":[]"#))
            for zone in ["news", "wiki"] {
                let refusal = try await ben.send(.GET, "/zones/\(zone)/members")
                #expect(refusal.status == 403 && refusal.text.contains("notAllowed"), "\(refusal.text)")
            }
            // A member of such a zone has the stronger one of both roles, and sees the members.
            try await guarded.bench.members { try $0.set(.owner, of: "ben", in: "news") }
            try await guarded.bench.members { try $0.set(.reader, of: "ben", in: "wiki") }
            let bens = try await ben.send(.GET, "/zones").text
            #expect(bens.contains(#""members":1,"revision":0,"role":"owner","zone":"news""#), "\(bens)")
            #expect(bens.contains(#""members":1,"revision":1,"role":"writer","zone":"wiki""#), "\(bens)")
            #expect(try await ben.send(.GET, "/zones/news/members").text.contains("ben"))
            #expect(try await !anna.send(.GET, "/zones").text.contains("members"))
        }
    }

    @Test func `a stream tells of a zone that the operator opens, and of none that was closed`() async throws {
        let wiki = ["wiki": AccessPolicy.ZoneRights(everybody: .writer)]
        try await Self.runGuarded(open: wiki) { anna, ben, server, guarded in
            try await guarded.service.makeZone("news")
            let stream = try await RawListener.open(server, path: "/me/events", token: ben.token)
            _ = await stream.line(": tidemark")
            #expect(await stream.line("data: {\"zone")?.contains(#""zone":"wiki""#) == true)
            let news = ["news": AccessPolicy.ZoneRights(everybody: .reader)]
            guarded.bench.gate.follow(AccessPolicy(hasOwnUsers: true, zones: news))
            let listed = await stream.line("event: ")
            #expect(listed == "event: zones")
            _ = await stream.line("data: {\"version")
            #expect(await stream.line("data: {\"zone")?.contains(#""zone":"news""#) == true)
            #expect(try await anna.write("closed", into: "wiki") == 404)
            try await stream.close()
        }
    }
}
