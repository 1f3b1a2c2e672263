import Foundation
import Testing

extension IntegrationTests {
    /// Zones that users make at a real server, and its operator's commands about them.
    @Suite(.timeLimit(.minutes(30))) struct ZonesCommandTests {
        private static func token(in text: String) throws -> String {
            String(try #require(text.firstMatch(of: /tm[a-z]_[a-z0-9]+_[a-z0-9]+/), "\(text)").output)
        }

        @Test func `two people share a list and keep private ones, on both stores, as the demo tells`() async throws {
            let workshop = try Workshop()
            let demo = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "Examples/Sharing/demo.sh").path
            let result = try await workshop.start(
                demo, [Workshop.programs.appending(path: "tidemark").path], environment: ["NO_COLOR": "1"]
            ).finished()
            #expect(result.status == 0, "\(result.output)\(result.errors)")
            #expect(result.output.contains("the private ones are private"))
            #expect(!result.output.contains("NO  "))
        }

        @Test func `a zone that was deleted by mistake is restored with its rows, by the operator`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);", to: "s.sql")
            var server = try await SecureServer.start(in: workshop)
            let data = ["--data", workshop.path("data")]
            let added = try await workshop.startTidemark(["user", "add", "anna"] + data).finished()
            let anna = try await server.exchange(try Self.token(in: added.output), device: "phone")
            let creation = #"{"kind":"shared","title":"Shopping","request":"1"}"#
            let made = try await server.curl("/zones", token: anna, "-d", creation)
            let zone = String(try #require(made.body.firstMatch(of: /z_[a-z2-7]{26}/), "\(made.body)").output)
            let edit =
                #"{"maxRevision":0,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"milk"}}}}]}"#
            #expect(try await server.curl("/zones/\(zone)/sync", token: anna, "-d", edit).status == 200)
            // Killed and started again, the server has the zone.
            try await server.program.killed()
            server = try await SecureServer.start(in: workshop, port: server.port)
            #expect(try await server.curl("/zones", token: anna).body.contains(#""revision":1"#))
            #expect(try await server.curl("/zones/\(zone)", token: anna, "-X", "DELETE").status == 204)
            #expect(try await server.curl("/zones/\(zone)/schema", token: anna).status == 410)
            let list = try await workshop.startTidemark(["zones", "list"] + data).finished()
            #expect(list.output.contains(zone) && list.output.contains("Shopping") && list.output.contains("deleted"))
            let restored = try await workshop.startTidemark(["zones", "restore", zone] + data).finished()
            #expect(restored.status == 0, "\(restored.errors)")
            let again = try await workshop.startTidemark(["zones", "restore", zone] + data).finished()
            #expect(again.status != 0 && again.errors.contains("no deleted zone"))
            #expect(try await server.curl("/zones/\(zone)/digest", token: anna).body.contains(#""rows":1"#))
            #expect(try await workshop.sqlite3("data/zones/\(zone).sqlite", "SELECT text FROM notes") == "milk")
            // The operator gives rights in a zone that users have made.
            _ = try await workshop.startTidemark(["user", "add", "ben"] + data).finished()
            let role = ["user", "role", "ben", "reader", "--zone", zone] + data
            let gift = try await workshop.startTidemark(role).finished()
            #expect(gift.status == 0, "\(gift.errors)")
            let explained = try await workshop.startTidemark(["access", "explain", "ben", zone] + data).finished()
            #expect(explained.output.contains("ben can read zone \(zone)"), "\(explained.output)")
            let nowhere = try await workshop.startTidemark(["access", "explain", "ben", "z_nowhere"] + data).finished()
            #expect(nowhere.output.contains("no such zone"), "\(nowhere.output)")
            try await server.stopped()
        }
    }
}
