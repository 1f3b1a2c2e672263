import GRDB
import TidemarkCore

/// The app writes, in a transaction that the engine sees end.
struct EditOnDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([10, 10, 4, 20]) }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice() else { return false }
        let edit = world.drawEdit(by: "d\(device.number)", isForDevice: true, version: device.version)
        world.counters[.edits] += 1
        try world.run(edit, as: device.name) { try device.write($0) }
        try world.recorder.edited(device)
        return true
    }
}

/// Another program writes into a device's file: the shell, a script.
struct EditOutside: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([0, 3, 3, 10]) }

    func perform(in world: World) throws -> Bool {
        guard let device = world.device() else { return false }
        let edit = world.drawEdit(by: "o\(device.number)", isForDevice: true, version: device.version)
        world.counters[.outsideEdits] += 1
        try world.run(edit, as: "\(device.name), another program") { try device.writeOutside($0) }
        try world.recorder.edited(device)
        return true
    }
}

/// Another program writes into the server's file.
struct EditOnServer: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([0, 2, 2, 6]) }

    func perform(in world: World) throws -> Bool {
        let edit = world.drawEdit(by: "s", isForDevice: false, version: world.server.version)
        world.counters[.serverEdits] += 1
        try world.run(edit, as: "server, another program") { try world.server.writeOutside($0) }
        guard let ledger = world.recorder.ledger else { return true }
        ledger.isProgramWriting = true
        defer { ledger.isProgramWriting = false }
        try world.server.absorb()
        try world.recorder.served(world.server, request: nil, .success(nil))
        return true
    }
}

/// A transaction to run.
struct Edit {
    /// The statements, each with the values of its parameters.
    let statements: [(statement: Statement, values: [DatabaseValue])]
}

extension World {
    /// Draws a transaction whose values carry their writer's name.
    ///
    /// `version` is the version of its tables.
    func drawEdit(by writer: String, isForDevice: Bool, version: Int) -> Edit {
        let count = 1 + decisions.decide(plan.statementsMax)
        let new = Migrations.statements(version)
        let usual =
            switch version {
            case Shapes.version: Shapes.statements
            case Fates.version: Fates.statements
            default: Statements.all
            }
        let all = usual + new
        let weights =
            zip(usual, plan.statementWeights).map { $0.isForDevices && !isForDevice ? 0 : $1 } + new.map { _ in 2 }
        return Edit(
            statements: (0..<count).map { _ in
                let statement = all[drawWeighted(weights)]
                writes += 1
                let values: [DatabaseValue] = [
                    drawValue("\(writer).\(writes)").databaseValue, decisions.decide(plan.spread).databaseValue,
                    decisions.decide(plan.spread).databaseValue, decisions.decide(6).databaseValue,
                ]
                return (statement, values)
            }
        )
    }

    /// The name of a write, which sometimes begins a long text.
    private func drawValue(_ name: String) -> String {
        guard decisions.chance(plan.longValues) else { return name }
        counters[.longValues] += 1
        let length = decisions.pick([2_000, 300, 20_000, 70_000])
        return name + "." + String(repeating: "longer ", count: length / 7)
    }

    /// Runs a transaction.
    ///
    /// If it breaks a constraint, it is rolled back, as in any program.
    func run(_ edit: Edit, as actor: String, _ write: ((Database) throws -> Void) throws -> Void) throws {
        counters[.statements] += edit.statements.count
        note("\(actor) writes", edit.text)
        do {
            try write { db in
                for (statement, values) in edit.statements {
                    for part in statement.parts {
                        try db.cachedStatement(sql: part.sql).execute(
                            arguments: StatementArguments(values.prefix(part.parameterCount)))
                        if part.sql.hasPrefix("DELETE") { counters[.deletes] += db.changesCount }
                    }
                }
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT || isDropped(error) {
            counters[.brokenEdits] += 1
            note("\(actor) rolls back", ": \(error.message ?? "")")
        }
    }
}

extension World {
    /// Whether a statement uses a column that a migration has dropped.
    private func isDropped(_ error: DatabaseError) -> Bool {
        options.profile.followsFates && error.message?.hasPrefix("no such column") == true
    }
}

extension Edit {
    /// The statements, in words.
    var text: String {
        statements.map { statement, values in
            "\n             \(statement.name) \(values.map { "\($0)".prefix(40) }.joined(separator: " "))"
        }.joined()
    }
}
