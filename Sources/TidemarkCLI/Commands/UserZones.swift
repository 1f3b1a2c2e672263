public import ArgumentParser
import Foundation
import Tidemark
public import TidemarkCore
import TidemarkTerminal

extension ZonesCommand {
    struct Mine: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List your zones at a server, with your role in each.",
            discussion: "  tidemark zones mine https://sync.example.org --kind shared")
        @OptionGroup var server: UserServer
        @Option(help: "Only zones of this kind: private, shared or public.") var kind: ZoneKind?

        func run() async throws {
            try await Terminal.runInterruptibly {
                let zones = try await server.transport().zones(kind: kind)
                if server.json { return try Terminal.json(zones) }
                Terminal.table(
                    zones.map { zone in
                        [
                            zone.zone, zone.kind.rawValue, zone.title ?? "", zone.role.rawValue,
                            zone.members.map { Counted.text($0, "member") } ?? "open to everybody",
                            zone.revision.map { "revision \($0)" } ?? "not used yet",
                        ]
                    }
                )
            }
        }
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a shared zone, which you own.",
            discussion: "  tidemark zones create https://sync.example.org --title Shopping")
        @OptionGroup var server: UserServer
        @Option(help: "The zone's name for people.") var title: String

        func run() async throws {
            try await Terminal.runInterruptibly {
                let request = SyncEngine.Environment.system.newID().uuidString.lowercased()
                let zone = try await server.transport().createZone(title: title, request: request)
                if server.json { return try Terminal.json(["zone": zone]) }
                Terminal.line("made \(zone)")
                Terminal.line("Its rows, in a file:")
                Terminal.line("    tidemark device join \(server.url) FILE.sqlite --zone \(zone)")
                Terminal.line("To invite somebody:")
                Terminal.line("    tidemark zones invite \(server.url) \(zone)")
            }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a zone that you own, for all its members.",
            discussion: "The server's operator can restore it for 30 days; then its rows are removed.")
        @OptionGroup var server: UserServer
        @Argument(help: "The zone's name.") var zone: String

        func run() async throws {
            try await Terminal.runInterruptibly {
                try await server.transport().deleteZone(zone)
                if server.json { return try Terminal.json(["zone": zone, "state": "deleted"]) }
                Terminal.line("deleted \(zone)")
            }
        }
    }
}

extension ZoneKind: ExpressibleByArgument {}
