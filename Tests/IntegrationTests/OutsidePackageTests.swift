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
        private static func compile(_ source: String) async throws -> Program.Result {
            let workshop = try Workshop()
            let postgreSQL = try await headersOfPostgreSQL(workshop)
            let built = try FileManager.default.contentsOfDirectory(atPath: Workshop.programs.path)
            let maps = built.map { Workshop.programs.appending(path: "\($0)/module.modulemap").path }.filter {
                $0.hasSuffix(".build/module.modulemap") && FileManager.default.fileExists(atPath: $0)
            }
            var arguments = ["-typecheck", "-swift-version", "6"]
            arguments += ["-module-cache-path", workshop.folder.appending(path: "modules").path]
            arguments += ["-I", Workshop.programs.appending(path: "Modules").path, "-Xcc", "-I\(postgreSQL)"]
            for folder in try headerFolders() { arguments += ["-I", folder] }
            for map in maps { arguments += ["-Xcc", "-fmodule-map-file=\(map)"] }
            arguments.append(repository.appending(path: "Tests/OutsidePackage/\(source)").path)
            return try await workshop.start("swiftc", arguments).finished()
        }

        @Test(arguments: ["App.swift", "Host.swift"])
        func `an app catches errors and sets limits by one import, and a host embeds either store`(source: String)
            async throws
        {
            let result = try await Self.compile(source)
            #expect(result.status == 0, "\(result.output)\(result.errors)")
        }

        @Test func `the seam of the stores is not visible outside the package`() async throws {
            let result = try await Self.compile("Seam.swift")
            #expect(result.status != 0)
            #expect(result.errors.contains("cannot find type 'StoreTransaction' in scope"), "\(result.errors)")
        }
    }
}
