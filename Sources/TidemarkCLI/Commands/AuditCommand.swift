import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkTerminal

/// `tidemark audit`: who signed in, and who changed the rights of whom.
struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "List sign-ins and changes of users, tokens and rights, oldest first.",
        discussion: """
            `operator` is a command on the server's machine. Tokens have their ids, never their secrets.

              tidemark audit --user anna --since 2026-11-01 --data ./data
            """)
    @Option(help: "Only the entries by or about this user.") var user: String?
    @Option(help: ArgumentHelp("Only entries since a day or a time in UTC.", valueName: "date")) var since: String?
    @OptionGroup var place: AccessPlace

    /// An entry in the JSON output.
    private struct Row: Encodable {
        let time: String
        let author: String
        let action: String
        let subject: String?
        let zone: String?
        let detail: String?
    }

    func run() async throws {
        try await Terminal.run {
            let since = try since.map { text throws(TidemarkError) in try AccessTexts.milliseconds(text) } ?? 0
            let rows = try await place.transaction { [user] statements, now, _ in
                if let user { try Members(statements, now: now).require(user) }
                let owners = try TokenRegister(statements).entries().reduce(into: [:]) { $0[$1.id] = $1.user }
                return try Audit(statements, now: now).entries(since: since).filter { entry in
                    guard let user else { return true }
                    return entry.user == user || entry.subject == user || entry.subject.flatMap { owners[$0] } == user
                }.map { entry in
                    Row(
                        time: AccessTexts.time(entry.time), author: AccessTexts.author(entry.user),
                        action: entry.action, subject: entry.subject, zone: entry.zone, detail: entry.detail)
                }
            }
            if place.json { return try Terminal.json(rows) }
            Terminal.table(
                rows.map { row in
                    let zone = row.zone.map { "zone \($0)" }
                    return [
                        row.time, row.author, row.action, row.subject ?? "",
                        [zone, row.detail].compactMap { $0 }.joined(separator: ", "),
                    ]
                }
            )
        }
    }
}
