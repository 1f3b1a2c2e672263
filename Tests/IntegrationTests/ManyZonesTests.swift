import Foundation
import Testing

extension IntegrationTests {
    /// A server with many zones whose tables the operator alters.
    @Suite(.timeLimit(.minutes(30))) struct ManyZonesTests {
        /// A server with users, and a user's zones.
        private struct Site {
            let workshop: Workshop
            let token: String

            init() async throws {
                workshop = try Workshop()
                try workshop.write("CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT);", to: "s.sql")
                try await workshop.serve(Self.arguments(workshop)).stopped()
                let place = ["--data", workshop.path("data"), "--json"]
                _ = try await workshop.startTidemark(["user", "add", "anna"] + place).finished()
                let issued = try await workshop.startTidemark(["token", "add", "anna"] + place).finished()
                let object = try JSONSerialization.jsonObject(with: Data(issued.output.utf8)) as? [String: Any]
                token = try #require(object?["token"] as? String, "\(issued.errors)")
            }

            private static func arguments(_ workshop: Workshop) -> [String] {
                let place = ["--data", workshop.path("data"), "--schema", workshop.path("s.sql")]
                return ["serve", "--users", "--listen", "127.0.0.1:0"] + place
            }

            func serve(_ more: String...) async throws -> Server {
                try await workshop.serve(Self.arguments(workshop) + more)
            }

            func curl(_ arguments: String...) async throws -> [String: Any] {
                let rest = ["-s", "-H", "Authorization: Bearer \(token)", "-H", "Content-Type: application/json"]
                let output = try await workshop.start("curl", rest + arguments).finished().output
                guard !output.isEmpty else { return [:] }
                return try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any] ?? [:]
            }

            func makeZones(_ count: Int, at server: Server) async throws -> [String] {
                var zones: [String] = []
                for number in 0..<count {
                    let body = #"{"kind":"shared","title":"List \#(number)","request":"\#(number)"}"#
                    let made = try await curl("\(server.url)/zones", "-d", body)
                    let zone = try #require(made["zone"] as? String, "\(made)")
                    _ = try await curl("\(server.url)/zones/\(zone)/tables/note", "-d", #"{"v":"\#(number)"}"#)
                    zones.append(zone)
                }
                return zones
            }

            func file(_ zone: String) -> String { "data/zones/\(zone).sqlite" }
        }

        @Test func `a server that is killed while zones follow leaves each as it was or as it shall be, and goes on`()
            async throws
        {
            let site = try await Site()
            let first = try await site.serve()
            let zones = try await site.makeZones(30, at: first)
            try await first.stopped()
            try site.workshop.write("CREATE TABLE note (id INTEGER PRIMARY KEY, w TEXT, c TEXT);", to: "s.sql")
            for round in 0..<4 {
                let server = try await (round == 0 ? site.serve("--rename", "note.v=note.w") : site.serve())
                async let touched: Void = {
                    for zone in zones { _ = try await site.curl("\(server.url)/zones/\(zone)/tables/note") }
                }()
                for zone in zones.shuffled().prefix(3 + 4 * round) {
                    _ = try await site.curl("\(server.url)/zones/\(zone)/tables/note")
                }
                try await server.program.killed()
                try await touched
                for (number, zone) in zones.enumerated() {
                    let columns = try await site.workshop.sqlite3(
                        site.file(zone),
                        "SELECT group_concat(name) FROM pragma_table_info('note'); PRAGMA integrity_check")
                    #expect(["id,v\nok", "id,w,c\nok"].contains(columns), "\(columns)")
                    let column = columns.contains("w") ? "w" : "v"
                    let value = try await site.workshop.sqlite3(site.file(zone), "SELECT \(column) FROM note")
                    #expect(value == "\(number)")
                }
            }
            let last = try await site.serve()
            for (number, zone) in zones.enumerated() {
                let page = try await site.curl("\(last.url)/zones/\(zone)/tables/note")
                #expect((page["records"] as? [[String: Any]])?.first?["w"] as? String == "\(number)", "\(page)")
            }
            try await last.stopped()
        }

        @Test func `readyz counts a zone that cannot follow, names it to an administrator, and the log names it`()
            async throws
        {
            let site = try await Site()
            let first = try await site.serve()
            let zones = try await site.makeZones(3, at: first)
            try await first.stopped()
            // Undeclared, the rename is a question to the operator, except in the main zone.
            try await site.workshop.sqlite3("data/main.sqlite", "ALTER TABLE note RENAME COLUMN v TO w")
            try site.workshop.write("CREATE TABLE note (id INTEGER PRIMARY KEY, w TEXT);", to: "s.sql")
            let server = try await site.serve()
            let refused = try await site.curl("\(server.url)/zones/\(zones[1])/tables/note")
            #expect(refused["code"] as? String == "unavailable", "\(refused)")
            let open = try await site.workshop.run("curl", "-s", "\(server.url)/readyz").output
            #expect(open.hasPrefix("ready") && open.contains("not served: 1") && !open.contains(zones[1]))
            let issued = try await site.workshop.tidemark(
                "token", "add", "anna", "--administrator", "--data", site.workshop.path("data"), "--json")
            let object = try JSONSerialization.jsonObject(with: Data(issued.output.utf8)) as? [String: Any]
            let token = try #require(object?["token"] as? String)
            let header = "Authorization: Bearer \(token)"
            let named = try await site.workshop.run("curl", "-s", "-H", header, "\(server.url)/readyz").output
            #expect(named.contains(zones[1]) && named.contains("--rename note.v=note.w"), "\(named)")
            server.program.signalled(SIGTERM)
            let end = try await server.program.finished()
            #expect(end.errors.contains("zone \(zones[1]) is not served"), "\(end.errors)")
            let again = try await site.serve("--rename", "note.v=note.w")
            for zone in zones { _ = try await site.curl("\(again.url)/zones/\(zone)/tables/note") }
            #expect(try await site.workshop.run("curl", "-s", "\(again.url)/readyz").output == "ready\n")
            try await again.stopped()
        }
    }
}
