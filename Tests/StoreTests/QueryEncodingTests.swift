import StoreTestSupport
import Testing
import TidemarkCore

/// How a query is encoded: as forms are, by `URLSearchParams`, Python's `urlencode` and curl.
@Suite(.serialized, .timeLimit(.minutes(5))) struct QueryEncodingTests {
    private static let people = """
        CREATE TABLE person (id INTEGER PRIMARY KEY, "First Name" TEXT, note TEXT);
        INSERT INTO person VALUES (1, 'St Gallen', 'a+b'), (2, 'St+Gallen', 'a b');
        """

    @Test(arguments: ServedZone.stores)
    func `a space comes as a plus or as percent 20, and a plus as percent 2B, in values and in names of columns`(
        store: Store
    ) async throws {
        try await ServedZone.run(store, Self.people) { server in
            for (query, ids) in [
                ("First+Name=eq.St+Gallen", [1]), ("First%20Name=eq.St%20Gallen", [1]),
                ("First+Name=eq.St%2BGallen", [2]), ("note=like.a%2B*", [1]), ("or=(note.eq.a+b,id.eq.9)", [2]),
                ("select=id,First+Name&order=First+Name.desc", [2, 1]),
            ] {
                let page = try await server.get("/tables/person?\(query)")
                #expect(page.records.map { $0["id"] as? Int } == ids, "\(query) \(page.text)")
            }
            let record = try await server.get("/tables/person/1?select=First+Name")
            #expect(record.object["First Name"] as? String == "St Gallen")
            let feed = try await server.get("/changes?since=0&tables=person&First+Name=eq.St+Gallen")
            #expect(feed.status == 200 || feed.status == 410)
            let none = #""rows":0,"fingerprint":"00000000000000000000000000000000"}"#
            let part = try await server.post("/compare/person", #"{"filter":"First+Name=eq.St+Gallen",\#(none)"#)
            #expect(part.rows == 1)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `a time with an offset in since is read with its plus encoded, and without`(store: Store) async throws {
        try await ServedZone.run(store, Self.people) { server in
            for since in ["2001-01-01T00:00:00%2B01:00", "2001-01-01T00:00:00+01:00", "2001-01-01T00:00:00.5+0100"] {
                let feed = try await server.get("/changes?since=\(since)")
                #expect(feed.code != "invalidCursor", "\(since) \(feed.text)")
            }
            for since in ["2001-01-01+00:00", "2001-01-01T00:00:00+x"] {
                #expect(try await server.get("/changes?since=\(since)").code == "invalidCursor", "\(since)")
            }
        }
    }

    @Test(arguments: ServedZone.stores)
    func `a comparison begins with the number of a list`(store: Store) async throws {
        try await ServedZone.run(store, Self.people) { server in
            let since = try #require(try await server.get("/tables/person").object["since"] as? Int)
            let none = #""rows":0,"fingerprint":"00000000000000000000000000000000"}"#
            for place in ["\(since)", "\"\(since)\""] {
                let answer = try await server.post("/compare/person", #"{"since":\#(place),\#(none)"#)
                #expect(answer.object["since"] as? Int == since, "\(answer.text)")
            }
        }
    }

    @Test(arguments: ServedZone.stores)
    func `what a client gets wrong in a query or a body is named, with the right form`(store: Store) async throws {
        let team = "CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE); INSERT INTO team VALUES (1, 'Kiel');"
        try await ServedZone.run(store, team) { server in
            let negated = try await server.get("/tables/team?or=(not.name.like.K*,id.eq.1)")
            #expect(negated.code == "invalidFilter")
            #expect(negated.text.contains("name=not.like"), "\(negated.text)")
            let taken = try await server.post("/tables/team", #"{"name":"Kiel"}"#)
            #expect(taken.status == 409)
            #expect(!taken.text.contains("deletion") && !taken.text.contains(#""key":"-"#), "\(taken.text)")
            for (path, body, words) in [
                ("/tables/team", #"{"name":"Kiel",}"#, "byte 16"), ("/batch", #"{"requests":[}"#, "byte 14"),
                ("/batch", #"{"requests":[]}"#, "no entries"), ("/batch", "", "empty"),
                ("/sync", #"{"maxRevision":0,}"#, "byte 18"),
            ] {
                let refusal = try await server.post(path, body)
                #expect(refusal.status == 400)
                #expect(refusal.text.contains(words), "\(path) \(refusal.text)")
                #expect(path == "/sync" || !refusal.text.contains("maxRevision"), "\(refusal.text)")
            }
            let sent = try await server.post("/tables/team", #"{"name":"Lemgo","$revision":3,"$overruled":["name"]}"#)
            #expect(sent.status == 201, "\(sent.text)")
        }
    }
}
