import Foundation
import Testing

extension IntegrationTests {
    /// `tidemark device resolve --merge` stores values exactly as written.
    @Suite struct ResolveCommandTests {
        /// A device with a refused change of `thing` 1, because another device was first.
        private static func serveRefusedUpdate(_ workshop: Workshop) async throws -> Server {
            // A column without affinity keeps the type of the value.
            try await workshop.sqlite3(
                "zone.sqlite",
                "CREATE TABLE thing (id INTEGER PRIMARY KEY, i); INSERT INTO thing VALUES (1, 'x')"
            )
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
                "device",
                "resolve",
                workshop.path("b.sqlite"),
                "1",
                "--merge",
                "--values",
                workshop.path("values.json")
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
    }
}
