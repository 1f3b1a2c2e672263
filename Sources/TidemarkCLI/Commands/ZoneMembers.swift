public import ArgumentParser
import Foundation
import Tidemark
public import TidemarkCore
import TidemarkTerminal

extension ZonesCommand {
    struct MembersList: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "members", abstract: "List the members of a zone with their roles.")
        @OptionGroup var server: UserServer
        @Argument(help: "The zone's name.") var zone: String

        func run() async throws {
            try await Terminal.runInterruptibly {
                let members = try await server.transport().members(of: zone)
                if server.json { return try Terminal.json(members) }
                Terminal.table(members.map { [$0.user, $0.role.rawValue] })
            }
        }
    }

    struct SetRole: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "role",
            abstract: "Change the role of a member: owner, writer, reader, or none to remove the member.",
            discussion: """
                Only owners may. To hand a zone over, make another member an owner, and leave.

                  tidemark zones role https://sync.example.org z_kq3vjd2m7c5xw6h4ntbfyr2gae ben owner
                """)
        @OptionGroup var server: UserServer
        @Argument(help: "The zone's name.") var zone: String
        @Argument(help: "The member.") var user: String
        @Argument(help: "owner, writer, reader or none.") var role: String

        func validate() throws {
            guard role == Self.none || Role(rawValue: role) != nil else {
                throw ValidationError("The role is one of owner, writer, reader and none.")
            }
        }

        private static let none = "none"

        func run() async throws {
            try await Terminal.runInterruptibly {
                let transport = try server.transport()
                if let role = Role(rawValue: role) {
                    try await transport.setRole(role, of: user, in: zone)
                } else {
                    try await transport.removeMember(user, from: zone)
                }
                if server.json { return try Terminal.json(["zone": zone, "user": user, "role": role]) }
                Terminal.line(role == Self.none ? "removed \(user)" : "\(user): \(role)")
            }
        }
    }

    struct Invite: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make an invitation to a zone that you own, and print its secret.",
            discussion: """
                Send the secret by a way that you trust. A person who has it can become a member.

                  tidemark zones invite https://sync.example.org z_kq3vjd2m7c5xw6h4ntbfyr2gae --role reader
                """)
        @OptionGroup var server: UserServer
        @Argument(help: "The zone's name.") var zone: String
        @Option(help: "The role of those who accept it.") var role = Role.writer
        @Option(help: "How many people can accept it.") var uses = 1
        @Option(help: "How many days they can.") var days = 7

        func run() async throws {
            try await Terminal.runInterruptibly {
                let secret = try await server.transport().invite(to: zone, as: role, uses: uses, days: days)
                if server.json { return try Terminal.json(["invitation": secret]) }
                Terminal.line(
                    """
                    \(Counted.text(uses, "person", plural: "people")) can become \(role.withArticle) within \
                    \(Counted.text(days, "day")) with
                        \(secret)
                    The secret is not shown again. There:
                        tidemark zones accept \(server.url)
                    """)
            }
        }
    }

    struct Accept: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Accept an invitation to a zone.",
            discussion: """
                Asks for the secret, or for a link that ends with # and the secret. Without a terminal it is in \
                TIDEMARK_INVITATION of the environment; arguments are visible to others on the machine.
                """)
        @OptionGroup var server: UserServer

        func run() async throws {
            try await Terminal.runInterruptibly {
                let environment = ProcessInfo.processInfo.environment["TIDEMARK_INVITATION"]
                guard let invitation = try await environment.orAsking("Invitation: "), !invitation.isEmpty else {
                    throw TidemarkError(
                        .invalidArgument, "There is no invitation.",
                        fix: "Put its secret, tmi_…, into TIDEMARK_INVITATION, or run the command in a terminal.")
                }
                let membership = try await server.transport().accept(invitation)
                if server.json { return try Terminal.json(membership) }
                Terminal.line("you are \(membership.role.withArticle) of \(membership.zone). Its rows, in a file:")
                Terminal.line("    tidemark device join \(server.url) FILE.sqlite --zone \(membership.zone)")
            }
        }
    }

    struct Leave: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Leave a zone.",
            discussion: """
                The next sync of its file sets edits aside that the server does not have, and removes the rows. The \
                last owner cannot leave: make another member an owner, or delete the zone.
                """)
        @OptionGroup var server: UserServer
        @Argument(help: "The zone's name.") var zone: String

        func run() async throws {
            try await Terminal.runInterruptibly {
                try await server.transport().removeMember(nil, from: zone)
                if server.json { return try Terminal.json(["zone": zone, "state": "left"]) }
                Terminal.line("left \(zone)")
            }
        }
    }
}

extension Role: ExpressibleByArgument {}

extension String? {
    /// The text, or the answer of a person on the terminal; nil without either.
    fileprivate func orAsking(_ prompt: String) async throws -> String? {
        if let self { return self }
        return try await Terminal.secret(prompt)
    }
}
