import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkTerminal

/// `tidemark zones`: the zones of a user, and those of all users for the server's operator.
struct ZonesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zones",
        abstract: "Make and share zones; as the operator, list those of all users and restore a deleted one.",
        subcommands: [
            Mine.self, Create.self, Invite.self, Accept.self, MembersList.self, SetRole.self, Leave.self, Delete.self,
            List.self, Restore.self,
        ])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "As the operator, list all zones with their owners, oldest first.",
            discussion: """
                A deleted zone can be restored for 30 days; then the server removes its rows.

                  tidemark zones list --data ./data
                """)
        @OptionGroup var place: AccessPlace

        /// A zone in the JSON output.
        private struct Row: Encodable {
            let zone: String
            let kind: String
            let title: String?
            let owners: [String]
            let members: Int
            let state: String
            let deleted: String?
        }

        func run() async throws {
            try await Terminal.run {
                let rows = try await place.transaction { statements, now, _ in
                    let members = Members(statements, now: now)
                    return try Zones(statements, now: now).all().map { zone in
                        let list = try members.members(of: zone.name)
                        return Row(
                            zone: zone.name, kind: zone.kind.rawValue, title: zone.title,
                            owners: list.filter { $0.role == .owner }.map(\.user), members: list.count,
                            state: zone.life == .deleted ? "deleted" : "in use",
                            deleted: zone.deleted.map(AccessTexts.time))
                    }
                }
                if place.json { return try Terminal.json(rows) }
                Terminal.table(
                    rows.map { row in
                        [
                            row.zone, row.kind, row.title ?? "", row.owners.joined(separator: ", "),
                            Counted.text(row.members, "member"), row.deleted.map { "deleted \($0)" } ?? row.state,
                        ]
                    }
                )
            }
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "As the operator, restore a deleted zone with its rows and its members.",
            discussion: "  tidemark zones restore z_kq3vjd2m7c5xw6h4ntbfyr2gae --data ./data")
        @Argument(help: "The zone's name, from `tidemark zones list`.") var zone: String
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let isRestored = try await place.transaction { [zone] statements, now, _ in
                    let zones = Zones(statements, now: now)
                    guard let deleted = try zones.zone(zone) else { return false }
                    return try zones.record(.restored, of: deleted) != nil
                }
                guard isRestored else {
                    throw TidemarkError(
                        .unknownZone, "There is no deleted zone \(zone).",
                        fix: "`tidemark zones list \(place.location.arguments)` shows the zones.")
                }
                if place.json { return try Terminal.json(["zone": zone, "state": "in use"]) }
                Terminal.line("restored \(zone)")
            }
        }
    }
}
