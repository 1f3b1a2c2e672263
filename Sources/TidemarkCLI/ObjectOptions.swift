import ArgumentParser
import TidemarkCore
import TidemarkEmbedded

/// `--function`: what the views and triggers of a server may call in a new file.
struct FunctionOptions: ParsableArguments {
    @Option(
        name: .customLong("function"),
        help: ArgumentHelp(
            """
            A function of your program that the zone's views and triggers may call in this file; may be repeated. \
            Without it, those that call a function which SQLite does not have are left out.
            """,
            valueName: "name")
    ) var names: [String] = []
}

/// `--trigger`, `--collation` and `--migrations`: what the server knows of the program's own objects.
struct ObjectOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Where a trigger that writes synced tables runs: server, the default, or device, which is where the \
            program writes; may be repeated.
            """,
            discussion: "The zone keeps the choice. At `device` the trigger gets a condition, here and on devices.",
            valueName: "name=device|server")
    ) var trigger: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            A built-in collation that orders values like one that only the program has: BINARY, NOCASE or RTRIM; \
            may be repeated.
            """,
            discussion: "The zone keeps it, and devices use it where the program's own is missing.",
            valueName: "name=collation")
    ) var collation: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            A table in which your framework notes its migrations; may be repeated. Those of Django, Rails, Room, \
            Alembic, EF Core, Flyway, Knex, Prisma and GRDB are known.
            """,
            discussion: "The zone keeps it. Such a table does not sync: a device gets its rows with the columns.",
            valueName: "table")
    ) var migrations: [String] = []

    var isEmpty: Bool { trigger.isEmpty && collation.isEmpty && migrations.isEmpty }

    func read() throws -> ObjectDeclarations {
        let triggers = try trigger.reduce(into: [String: Bool]()) { triggers, text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2, ["device", "server"].contains(parts[1]) else {
                throw TidemarkError(
                    .invalidArgument, "\(text) does not say where a trigger runs.",
                    fix: "Write name=device or name=server.")
            }
            triggers[parts[0]] = parts[1] == "device"
        }
        let collations = try collation.reduce(into: [String: String]()) { collations, text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2 else {
                throw TidemarkError(
                    .invalidArgument, "\(text) names no collation that stands for another.",
                    fix: "Write name=BINARY, name=NOCASE or name=RTRIM.")
            }
            collations[parts[0]] = parts[1].uppercased()
        }
        return ObjectDeclarations(triggers: triggers, collations: collations, migrationTables: Set(migrations))
    }
}
