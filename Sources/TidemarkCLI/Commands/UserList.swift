import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkTerminal

extension UserCommand {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the users with their rights and the tokens that are good now.")
        @OptionGroup var place: AccessPlace

        /// A user in the JSON output.
        private struct Row: Encodable {
            let user: String
            let state: String
            let added: String
            let roles: [String: String]
            let tokens: Int
        }

        func run() async throws {
            try await Terminal.run {
                let rows = try await place.transaction { statements, now, _ in
                    let tokens = try TokenRegister(statements).entries().filter { $0.canAct(at: now) }
                    return try Members(statements, now: now).users().map { user in
                        Row(
                            user: user.id, state: user.isDisabled ? "disabled" : "enabled",
                            added: AccessTexts.time(user.created), roles: user.roles.mapValues(\.rawValue),
                            tokens: tokens.count { $0.user == user.id })
                    }
                }
                if place.json { return try Terminal.json(rows) }
                let lines = rows.map { row in
                    let roles = row.roles.sorted { $0.key < $1.key }.map { "\($0.value) of \($0.key)" }
                    return [
                        row.user, row.state, roles.isEmpty ? "no zone" : roles.joined(separator: ", "),
                        Counted.text(row.tokens, "token"), "since \(row.added.prefix(10))",
                    ]
                }
                Terminal.table(lines)
            }
        }
    }
}
