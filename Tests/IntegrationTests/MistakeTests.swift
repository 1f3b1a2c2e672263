import Foundation
import Testing
import Tidemark

extension IntegrationTests {
    /// Errors of the command line for wrong files: the problem and the cure.
    @Suite struct MistakeTests {
        private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"

        private static func message(_ workshop: Workshop, _ arguments: String...) async throws -> String {
            let result = try await workshop.startTidemark(arguments).finished()
            #expect(result.status != 0, "\(arguments)")
            return result.errors
        }

        @Test func `a folder, a text file and a device's file as the FILE argument get distinct errors`() async throws {
            let workshop = try Workshop()
            try workshop.write("Dear diary, this is no database at all.", to: "text.sqlite")
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let listen = ["--listen", "127.0.0.1:0"]
            for command in [["serve", "."] + listen, ["verify", "."], ["digest", "."]] {
                let output = try await workshop.startTidemark(command).finished()
                #expect(output.errors.contains(". is a folder"), "\(output.errors)")
            }
            let text = workshop.path("text.sqlite")
            for command in [["serve", text] + listen, ["device", "sync", text], ["verify", text]] {
                let output = try await workshop.startTidemark(command).finished()
                #expect(output.errors.contains("not a SQLite database"), "\(output.errors)")
            }
            let plain = try await Self.message(workshop, "device", "sync", workshop.path("zone.sqlite"))
            #expect(plain.contains("ordinary SQLite file") && plain.contains("OTHER"))
            let server = try await workshop.serve("zone.sqlite")
            for verb in ["sync", "status", "conflicts"] {
                let output = try await Self.message(workshop, "device", verb, workshop.path("zone.sqlite"))
                #expect(output.contains("a server's file"), "\(output)")
            }
            try await server.stopped()
        }

        @Test func `a device command without the word device, and a file as the store, get a suggestion`() async throws
        {
            let workshop = try Workshop()
            for verb in ["sync", "status", "conflicts", "resolve", "rescue", "join"] {
                let output = try await Self.message(workshop, verb, "x.sqlite", "--json")
                #expect(output.contains("tidemark device \(verb) x.sqlite --json"), "\(output)")
            }
            let store = try await Self.message(workshop, "serve", "--store", "app.sqlite")
            #expect(store.contains("begins with postgres://"))
            let help = try await workshop.tidemark("--help").output
            #expect(help.contains("5 another process") && !help.contains("Misplaced"))
        }

        @Test(.enabled(if: geteuid() != 0 || FileManager.default.fileExists(atPath: "/usr/bin/setpriv")))
        func `a file without permission is not reported as absent or as a disk error`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let manager = FileManager.default
            try manager.createDirectory(atPath: workshop.path("media"), withIntermediateDirectories: false)
            try await workshop.join(server, "media/a.sqlite")
            try await workshop.sqlite3("media/a.sqlite", "INSERT INTO note (text) VALUES ('new')")
            try await server.stopped()
            try manager.moveItem(atPath: workshop.path("zone.sqlite"), toPath: workshop.path("media/zone.sqlite"))
            func tidemark(_ arguments: String...) async throws -> Program.Result {
                let program = Workshop.programs.appending(path: "tidemark").path
                let all = [program] + arguments
                return geteuid() == 0
                    ? try await workshop.start("setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups"] + all)
                        .finished() : try await workshop.startTidemark(arguments).finished()
            }
            func allow(_ mode: Int) throws {
                try manager.setAttributes([.posixPermissions: mode], ofItemAtPath: workshop.path("media"))
            }
            try manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: workshop.folder.path)
            for file in ["a.sqlite", "zone.sqlite"] {
                try manager.setAttributes([.posixPermissions: 0o444], ofItemAtPath: workshop.path("media/\(file)"))
            }
            try allow(0o555)
            let path = workshop.path("media/a.sqlite")
            let status = try await tidemark("device", "status", path)
            #expect(status.status == 0 && status.output.contains("revision"), "\(status.errors)")
            #expect(try await tidemark("device", "conflicts", path).output == "no conflicts\n")
            let served = try await tidemark("serve", workshop.path("media/zone.sqlite"), "--listen", "127.0.0.1:0")
            #expect(served.errors.contains("read-only for this user"), "\(served.errors)")
            try allow(0o000)
            let hidden = try await tidemark("device", "status", path)
            #expect(hidden.errors.contains("Permission denied"), "\(hidden.errors)")
            #expect(!hidden.errors.contains("There is no file"))
            try allow(0o755)
        }
    }
}
