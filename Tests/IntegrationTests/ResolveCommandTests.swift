import Foundation
import Testing

extension IntegrationTests {
    /// `tidemark device resolve --merge` stores values exactly as written.
    @Suite struct ResolveCommandTests {
        /// A device with a refused change of `thing` 1, because another device was first.
        private static func serveRefusedUpdate(_ workshop: Workshop) async throws -> Server {
            // A column without affinity keeps the type of the value.
            try await workshop.sqlite3(
                "zone.sqlite", "CREATE TABLE thing (id INTEGER PRIMARY KEY, i); INSERT INTO thing VALUES (1, 'x')")
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            for (file, value) in [("a.sqlite", 1), ("b.sqlite", 2)] {
                try await workshop.sqlite3(file, "UPDATE thing SET i = \(value)")
            }
            try await workshop.sync("a.sqlite")
            let synced = try await workshop.tidemark("device", "sync", workshop.path("b.sqlite"))
            #expect(synced.status == 3, "\(synced.errors)")
            return server
        }

        private static func merge(_ workshop: Workshop, _ values: String) async throws -> Program.Result {
            try workshop.write(values, to: "values.json")
            return try await workshop.tidemark(
                "device", "resolve", workshop.path("b.sqlite"), "1", "--merge", "--values", workshop.path("values.json")
            )
        }

        @Test(arguments: [("42.0", "real|42.0"), ("1e2", "real|100.0"), ("42", "integer|42")])
        func `A8: a number given to resolve keeps its type`(written: String, stored: String)
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serveRefusedUpdate(workshop)
            let merged = try await Self.merge(workshop, #"{"thing":{"1":{"i":\#(written)}}}"#)
            #expect(merged.status == 0, "\(merged.errors)")
            try await workshop.sync("b.sqlite", "a.sqlite")
            for file in ["a.sqlite", "b.sqlite", "zone.sqlite"] {
                #expect(try await workshop.sqlite3(file, "SELECT typeof(i), i FROM thing") == stored)
            }
            try await server.stopped()
        }

        @Test func `values that are no object of tables, keys and columns are refused with a readable error`()
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serveRefusedUpdate(workshop)
            for values in ["", "{", "[]", "5", #"{"thing":5}"#, #"{"thing":{"1":5}}"#] {
                let merged = try await Self.merge(workshop, values)
                #expect(merged.status == 1, "\(values)")
                #expect(merged.errors.contains("no JSON object of tables"), "\(merged.errors)")
            }
            try await server.stopped()
        }

        // MARK: What the user has seen

        @Test func `rule 1: a record that changed after the refusal is overwritten only by the command that shows it`()
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serveRefusedUpdate(workshop)
            let file = workshop.path("b.sqlite")
            try await workshop.sqlite3("a.sqlite", "UPDATE thing SET i = 'LATER'")
            try await workshop.sync("a.sqlite")
            _ = try await workshop.tidemark("device", "sync", file)
            let blind = try await workshop.tidemark("device", "resolve", file, "1", "--retry")
            #expect(blind.status == 1 && blind.errors.contains("thing 1"), "\(blind.errors)")
            #expect(blind.errors.contains("has changed again") && blind.errors.contains("device conflicts"))
            let shown = try await workshop.tidemark("device", "conflicts", file)
            #expect(shown.output.contains("LATER") && shown.output.contains("changed again"), "\(shown.output)")
            let line = try #require(shown.output.split(separator: "\n").first { $0.contains("--retry --seen") })
            let seen = try #require(line.split(separator: " ").last.map(String.init))
            let json = try await workshop.tidemark("device", "conflicts", file, "--json")
            #expect(json.output.contains("\"seen\" : \"\(seen)\"") || json.output.contains("\"seen\":\"\(seen)\""))
            // It changes once more before the decision.
            try await workshop.sqlite3("a.sqlite", "UPDATE thing SET i = 'STILL LATER'")
            try await workshop.sync("a.sqlite")
            _ = try await workshop.tidemark("device", "sync", file)
            let late = try await workshop.tidemark("device", "resolve", file, "1", "--retry", "--seen", seen)
            #expect(late.status == 1 && late.errors.contains("has changed again"), "\(late.errors)")
            let again = try await workshop.tidemark("device", "conflicts", file)
            let next = try #require(again.output.split(separator: "\n").first { $0.contains("--retry --seen") })
            let now = try #require(next.split(separator: " ").last.map(String.init))
            let decided = try await workshop.tidemark("device", "resolve", file, "1", "--retry", "--seen", now)
            #expect(decided.status == 0, "\(decided.errors)")
            try await workshop.sync("b.sqlite", "a.sqlite")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT i FROM thing") == "2")
            try await server.stopped()
        }

        @Test(arguments: [("--as-new", "2|of a|of b"), ("--replace", "1|of b|of b")])
        func `a conflict over a number that a program chose says which choice does what`(
            option: String, expected: String
        ) async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", "CREATE TABLE note (id INTEGER PRIMARY KEY, x TEXT)")
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            for name in ["a", "b"] {
                try await workshop.sqlite3("\(name).sqlite", "INSERT INTO note VALUES (1, 'of \(name)')")
            }
            try await workshop.sync("a.sqlite")
            let file = workshop.path("b.sqlite")
            _ = try await workshop.tidemark("device", "sync", file)
            let shown = try await workshop.tidemark("device", "conflicts", file)
            #expect(shown.output.contains("under another number: tidemark device resolve \(file) 1 --retry --as-new"))
            #expect(shown.output.contains("which is lost: tidemark device resolve \(file) 1 --retry --replace"))
            let refusal = try await workshop.tidemark("device", "resolve", file, "1", "--retry")
            #expect(refusal.status == 1 && refusal.errors.contains("note 1"), "\(refusal.errors)")
            let resolved = try await workshop.tidemark("device", "resolve", file, "1", "--retry", option)
            #expect(resolved.status == 0, "\(resolved.errors)")
            try await workshop.sync("b.sqlite", "a.sqlite")
            let notes = try await workshop.sqlite3("zone.sqlite", "SELECT count(*), min(x), max(x) FROM note")
            #expect(notes == expected)
            try await server.stopped()
        }

        // MARK: A damaged file

        @Test func `a damaged conflict is named, the others are shown, and verify finds it`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "zone.sqlite",
                "CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO note VALUES (1, 'x'), (2, 'y')")
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            for id in 1...2 {
                for name in ["a", "b"] {
                    try await workshop.sqlite3("\(name).sqlite", "UPDATE note SET v = '\(name)\(id)' WHERE id = \(id)")
                    _ = try await workshop.tidemark("device", "sync", workshop.path("\(name).sqlite"))
                }
            }
            let file = workshop.path("b.sqlite")
            try await workshop.sqlite3(
                "b.sqlite", "UPDATE tidemark_conflict_record SET mine = replace(mine, ':', char(7)) WHERE key = '1'")
            for options in [[], ["--json"]] {
                let shown = try await workshop.startTidemark(["device", "conflicts", file] + options).finished()
                #expect(shown.status == 1 && shown.output.contains("b2"), "\(shown.output)")
                #expect(shown.errors.contains("conflict 1 is damaged"), "\(shown.errors)")
            }
            let verified = try await workshop.tidemark("verify", file)
            #expect(verified.status == 1 && verified.output.contains("conflict 1 cannot be read"), "\(verified.output)")
            for number in ["1", "2"] {
                let dropped = try await workshop.tidemark("device", "resolve", file, number, "--accept")
                #expect(dropped.status == 0, "\(dropped.errors)")
            }
            let right = try await workshop.tidemark("verify", file)
            #expect(right.status == 0, "\(right.output)")
            try await server.stopped()
        }
    }
}
