import Foundation
import Testing

extension IntegrationTests {
    /// A program of another package sees what it can use, and nothing else.
    ///
    /// The compiler checks the sources in `Tests/OutsidePackage` against the modules that are built, without the
    /// package's name.
    @Suite struct OutsidePackageTests {
        private static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()

        /// The folders with C headers that the modules need.
        private static func headerFolders() throws -> [String] {
            let files = FileManager.default
            let build = Workshop.programs.deletingLastPathComponent().deletingLastPathComponent()
            let checkouts = build.appending(path: "checkouts")
            let packages = try files.contentsOfDirectory(atPath: checkouts.path)
            let folders = try packages.flatMap { package -> [String] in
                let sources = checkouts.appending(path: "\(package)/Sources")
                guard files.fileExists(atPath: sources.path) else { return [] }
                return try files.contentsOfDirectory(atPath: sources.path).flatMap { target in
                    let folder = sources.appending(path: target).path
                    return [folder, folder + "/include"]
                }
            }
            return (folders + ["CZlib", "CLibPQ", "CHiredis"].map { repository.appending(path: "Sources/\($0)").path })
                .filter { files.fileExists(atPath: $0 + "/module.modulemap") }
        }

        /// The folder of `libpq-fe.h`, which is no default folder of the compiler.
        private static func headersOfPostgreSQL(_ workshop: Workshop) async throws -> String {
            let result = try await workshop.start("pg_config", ["--includedir"]).finished()
            try #require(result.status == 0, "\(result.errors)")
            return result.output.trimmingCharacters(in: .whitespacesAndNewlines)
        }

        /// Compiles with a module cache of its own: the build's cache hides headers that are not found.
        private static func compile(_ source: String, in workshop: Workshop, as options: [String] = ["-typecheck"])
            async throws -> Program.Result
        {
            let postgreSQL = try await headersOfPostgreSQL(workshop)
            let built = try FileManager.default.contentsOfDirectory(atPath: Workshop.programs.path)
            let maps = built.map { Workshop.programs.appending(path: "\($0)/module.modulemap").path }.filter {
                $0.hasSuffix(".build/module.modulemap") && FileManager.default.fileExists(atPath: $0)
            }
            var arguments = options + ["-swift-version", "6", "-parse-as-library"]
            arguments += ["-module-cache-path", workshop.path("modules")]
            arguments += ["-I", Workshop.programs.appending(path: "Modules").path, "-Xcc", "-I\(postgreSQL)"]
            for folder in try headerFolders() { arguments += ["-I", folder] }
            for map in maps { arguments += ["-Xcc", "-fmodule-map-file=\(map)"] }
            arguments.append(repository.appending(path: "Tests/OutsidePackage/\(source)").path)
            return try await workshop.start("swiftc", arguments).finished()
        }

        /// Links with the object files of the product `Tidemark` alone, which are those of the README's example.
        private static func link(_ object: String, to program: String, in workshop: Workshop) async throws
            -> Program.Result
        {
            let list = Workshop.programs.appending(path: "Quickstart.product/Objects.LinkFileList")
            let objects = try String(contentsOf: list, encoding: .utf8).split(separator: "\n")
                .filter { !$0.contains("/Quickstart.build/") }
            let path = try workshop.write(objects.joined(separator: "\n"), to: "objects")
            return try await workshop.start(
                "swiftc", ["-o", workshop.path(program), workshop.path(object), "@\(path)", "-lstdc++"]
            ).finished()
        }

        @Test func `an app of the product Tidemark alone is built outside the package, and waits for a real server`()
            async throws
        {
            let workshop = try Workshop()
            let options = ["-c", "-module-name", "App", "-o", workshop.path("App.o")]
            let compiled = try await Self.compile("App.swift", in: workshop, as: options)
            try #require(compiled.status == 0, "\(compiled.output)\(compiled.errors)")
            let linked = try await Self.link("App.o", to: "App", in: workshop)
            try #require(linked.status == 0, "\(linked.output)\(linked.errors)")
            try await workshop.sqlite3(
                "zone.sqlite",
                "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT NOT NULL); INSERT INTO player VALUES (1, 'Anna')"
            )
            let server = try await workshop.serve("zone.sqlite")
            let app = workshop.path("App")
            let run = try await workshop.start(app, [workshop.path("app.sqlite"), server.url]).finished()
            #expect(run.status == 0, "\(run.errors)")
            #expect(run.output == "waiting(since: nil), then on the server at revision 2\n")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT name FROM player ORDER BY id") == "Anna\nCarla")
            let offline = try await workshop.start(app, [workshop.path("late.sqlite"), "http://127.0.0.1:1"]).finished()
            #expect(offline.output == "0 change sets wait\n")
            try await server.stopped()
        }

        @Test func `a host embeds either store by one import`() async throws {
            let result = try await Self.compile("Host.swift", in: Workshop())
            #expect(result.status == 0, "\(result.output)\(result.errors)")
        }

        @Test func `the seam of the stores is not visible outside the package`() async throws {
            let result = try await Self.compile("Seam.swift", in: Workshop())
            #expect(result.status != 0)
            #expect(result.errors.contains("cannot find type 'CommitTransaction' in scope"), "\(result.errors)")
        }
    }
}
