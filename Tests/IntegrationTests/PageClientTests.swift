import Foundation
import Testing

extension IntegrationTests {
    /// A2: the client that `Docs/PROTOCOL.md` prints, with nothing but the page's Core.
    @Suite(.enabled(if: Tool.python.isThere, "python3 is not in PATH")) struct PageClientTests {
        private static let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
                team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE, goals INTEGER DEFAULT 0 CHECK (goals >= 0));
            CREATE TABLE state (country TEXT, code TEXT, size REAL, flag BLOB, PRIMARY KEY (country, code));
            INSERT INTO team (name) VALUES ('Kiel'), ('Flensburg');
            INSERT INTO player (team_id, name) VALUES (1, 'Anna'), (1, 'Ben'), (2, 'Dora');
            INSERT INTO state VALUES ('DE', 'SH', 9.5, x'00ff');
            """

        /// The common start of all stories; `even` compares clients with a current snapshot.
        private static let opening = #"""
            import sys
            from client import Client, member
            url, keys = sys.argv[1], {"team": ["id"], "player": ["id"], "state": ["country", "code"]}
            fresh = iter(range(100))

            class Losing(Client):
                lost = 0
                def post(self, change_sets):
                    answer = super().post(change_sets)
                    if self.lost:
                        self.lost -= 1
                        raise ConnectionError("the answer is lost")
                    return answer

            def even(*clients):
                truth = Client(url, f"truth{next(fresh)}", keys).rows
                for client in clients:
                    assert client.rows == truth, (client.rows, truth)

            a, b = Losing(url, "a", keys), Losing(url, "b", keys)

            """#

        private static func tell(_ story: String, _ workshop: Workshop, _ server: Server) async throws {
            let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Docs/PROTOCOL.md")
            let page = try String(contentsOf: root, encoding: .utf8)
            let client = try #require(page.firstMatch(of: /```python\n([\s\S]*?)```/)?.output.1)
            try workshop.write(String(client), to: "client.py")
            try workshop.write(opening + story, to: "story.py")
            let result = try await workshop.run("python3", workshop.path("story.py"), server.url)
            #expect(result.status == 0, "\(result.errors)")
        }

        @Test func `the web page's client creates, updates and deletes, and parks a refused set whole`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await Self.tell(
                #"""
                team, player, key = a.new_id(), a.new_id(), ["DE", "SH"]
                a.write(team={"create": [team], "attributes": {str(team): {"name": "Lemgo"}}},
                        player={"create": [player], "update": [2], "delete": [3], "attributes": {
                            str(player): {"team_id": team, "name": "Carla"}, "2": {"goals": 7}}},
                        state={"create": [["FR", "\n"]], "update": [key], "attributes": {
                            member(["FR", "\n"]): {"flag": {"$blob": "AP8="}}, member(key): {"size": 1e300}}})
                a.write(player={"update": [player], "attributes": {str(player): {"goals": 1}}})
                a.sync()
                assert not a.aside and a.ids == {"team": {"-1": 3}, "player": {"-2": 4}}, (a.aside, a.ids)
                b.write(player={"delete": [2]})
                b.write(team={"update": [2], "attributes": {"2": {"name": "SG"}}})
                b.sync()
                rules = [reasons[0]["rule"] for _, reasons in b.aside]
                assert rules == ["changed", "predecessor"], b.aside
                even(a, b)
                """#,
                workshop,
                server
            )
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT goals FROM player ORDER BY id") == "0\n7\n1")
            try await server.stopped()
        }

        @Test func `the web page's client loses no edit by a reload, a lost answer or a wrong value`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await Self.tell(
                #"""
                new = a.new_id()
                a.write(player={"create": [new], "attributes": {str(new): {"team_id": 1, "name": "Emil"}}})
                a.lost = 1
                try:
                    a.sync()
                    assert False, "the answer was not lost"
                except ConnectionError:
                    pass
                a = Client(url, "a", keys)
                assert len(a.outbox) == 1 and a.last_id == new
                b.sync()
                b.write(player={"update": [1], "attributes": {"1": {"goals": 3}}})
                b.sync()
                a.write(player={"update": [new], "attributes": {str(new): {"goals": 9}}})
                a.sync()
                b.sync()
                assert not a.aside and [row["name"] for row in b.rows["player"].values()].count("Emil") == 1
                b.write(player={"update": [2], "attributes": {"2": {"goals": 4}}})
                b.write(player={"update": [2], "attributes": {"2": {"goals": -4}}})
                b.sync()
                assert b.rows["player"]["2"]["goals"] == 4
                assert [error["code"] for _, error in b.aside] == ["constraintViolated"], b.aside
                a.sync()
                even(a, b)
                """#,
                workshop,
                server
            )
            try await server.stopped()
        }
    }
}
