import GRDB
package import TidemarkCore

/// Tries the objects of a file out in a scratch database, beside its tables.
///
/// The result depends on the statements only. A server runs it to learn what its file's triggers do, and
/// a device to learn which of a server's statements it can accept.
package struct ObjectTrial {
    package struct Effects: Hashable, Sendable {
        /// The table or view that fires it.
        package let target: String
        /// The tables and views that it writes, in lower case.
        package let written: Set<String>
        /// Whether it writes synced tables, itself or by other triggers.
        package let writesSynced: Bool
        /// The functions that it calls and that this process does not have.
        package let unknownFunctions: Set<String>
        /// Whether it only maintains local and virtual tables, so that it runs for the server's rows as well.
        package var feedsLocalTables: Bool { !written.isEmpty && !writesSynced }
    }

    /// The objects that SQLite accepts, in their order.
    package private(set) var accepted: [FileObjects.Object] = []
    /// The objects that SQLite does not accept, with the reasons.
    package private(set) var reasons: [String: String] = [:]
    package private(set) var effects: [String: Effects] = [:]
    /// The functions of tables and indexes that this process does not have.
    package let tableFunctions: Set<String>
    /// The functions that the tables, beside which the objects stand, may not call; by table.
    package private(set) var forbiddenCalls: [String: Set<String>] = [:]
    /// All functions that this process does not have.
    package private(set) var unknownFunctions: Set<String> = []
    /// The functions that the accepted objects call and that this process does not have, by object.
    package private(set) var unknownCalls: [String: Set<String>] = [:]
    /// All collations that this process does not have.
    package private(set) var unknownCollations: Set<String> = []
    private let scratch: ScratchSchema
    private let permits: (_ function: String) throws -> Bool
    private var targets: [String: String] = [:]

    /// Tries objects out in their order, beside the statements `tables`; `permits` judges functions not SQLite's own.
    package init(
        _ objects: [FileObjects.Object], beside tables: [FileObjects.Object], synced: Set<String>,
        permitting permits: @escaping (_ function: String) throws -> Bool = { _ in true }
    ) throws {
        self.permits = permits
        scratch = try ScratchSchema()
        for table in tables {
            if let reason = scratch.create(table) { reasons[table.name] = reason }
            if table.kind == .table { Self.compileDefaults(of: table, in: scratch) }
        }
        tableFunctions = scratch.unknownFunctions
        forbiddenCalls = try findForbiddenCalls()
        for kind in FileObjects.Object.Kind.allCases {
            for object in objects where object.kind == kind { try take(object) }
        }
        try rejectRest()
        unknownCalls = scratch.unknownCalls.filter { name, _ in accepted.contains { $0.name == name } }
        try findEffects(synced)
        unknownFunctions = scratch.unknownFunctions
        unknownCollations = scratch.unknownCollations
    }

    private mutating func take(_ object: FileObjects.Object) throws {
        if let reason = scratch.create(object) {
            reasons[object.name] = reason
            return
        }
        accepted.append(object)
        if object.kind == .table { Self.compileDefaults(of: object, in: scratch) }
        // SQLite looks for a view's functions when it is used. Whether it compiles is asked later.
        if object.kind == .view { _ = scratch.compile("SELECT * FROM main.\(SQLText.name(object.name))") }
        guard object.kind == .trigger else { return }
        let (target, isShadow) = try scratch.read { db in
            let target = try String.fetchOne(
                db, sql: "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name = ?",
                arguments: [object.name])
            return (target ?? "", try !ShadowTriggers.problems(in: db).isEmpty)
        }
        targets[object.name] = target
        if isShadow {
            try reject(object, because: "stands on \(target), where a virtual table keeps its content")
        } else if let reason = try compileWrites(to: target) {
            try reject(object, because: reason)
        }
    }

    /// Compiles an insert that takes all defaults of a table, which SQLite does not compile with the table.
    private static func compileDefaults(of table: FileObjects.Object, in scratch: ScratchSchema) {
        _ = scratch.compile("INSERT INTO main.\(SQLText.name(table.name)) DEFAULT VALUES", of: table.name)
    }

    /// Rejects views that do not compile, what calls forbidden functions, and what needs the rejected objects.
    private mutating func rejectRest() throws {
        var count = accepted.count + 1
        while accepted.count < count {
            count = accepted.count
            for view in accepted where view.kind == .view {
                let problem = scratch.compile("SELECT * FROM main.\(SQLText.name(view.name))")
                if let problem { try reject(view, because: problem) }
            }
            let forbidden = try findForbiddenCalls()
            for object in accepted {
                guard let names = forbidden[object.name] else { continue }
                try reject(object, because: ProgramFunctions.reasonAgainst(names))
            }
            guard accepted.count < count else { return }
            try takeTriggersAgain()
        }
    }

    /// Takes the triggers of all tables and views whose writes no longer compile again, one by one.
    private mutating func takeTriggersAgain() throws {
        let triggers = try accepted.filter {
            try $0.kind == .trigger && compileWrites(to: targets[$0.name] ?? "") != nil
        }
        for trigger in triggers {
            accepted.removeAll { $0 == trigger }
            // SQLite has dropped those of a dropped view.
            try scratch.read { try $0.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(trigger.name))") }
        }
        for trigger in triggers { try take(trigger) }
    }

    /// Returns the functions that statements may not call, by trigger, view or table.
    private func findForbiddenCalls() throws -> [String: Set<String>] {
        let unknown = scratch.unknownFunctions
        return try scratch.calls.mapValues { calls in
            try calls.filter { name in
                let isOrdinary = !unknown.contains(name) && !ProgramFunctions.dangerous.contains(name)
                return try !isOrdinary && !permits(name)
            }
        }.filter { !$0.value.isEmpty }
    }

    /// Compiles the writes that can fire triggers; on a view, only those with an `INSTEAD OF` trigger compile.
    private func compileWrites(to target: String) throws -> String? {
        let isView = accepted.contains { $0.kind == .view && $0.name.lowercased() == target.lowercased() }
        let problems = try scratch.writes(to: target).map { scratch.compile($0) }
        guard isView else { return problems.compactMap { $0 }.first }
        return problems.contains { $0 == nil } ? nil : problems.compactMap { $0 }.first
    }

    private mutating func reject(_ object: FileObjects.Object, because reason: String) throws {
        reasons[object.name] = reason
        accepted.removeAll { $0 == object }
        let type = object.kind == .virtual ? "table" : object.kind.rawValue
        try scratch.read { try $0.execute(sql: "DROP \(type) \(SQLText.name(object.name))") }
    }

    private mutating func findEffects(_ synced: Set<String>) throws {
        scratch.resetEffects()
        let targets = targets.filter { name, _ in accepted.contains { $0.name == name } }
        for target in Set(targets.values).sorted() { _ = try compileWrites(to: target) }
        let written = scratch.tablesWritten.mapValues { Set($0.map { $0.lowercased() }) }
        let names = Set(synced.map { $0.lowercased() })
        var writers = Set(targets.keys.filter { !written[$0, default: []].isDisjoint(with: names) })
        var isGrowing = true
        while isGrowing {
            let reached = Set(writers.compactMap { targets[$0]?.lowercased() })
            let more = targets.keys.filter { !written[$0, default: []].isDisjoint(with: reached) }
            isGrowing = !writers.isSuperset(of: more)
            writers.formUnion(more)
        }
        for (name, target) in targets {
            effects[name] = Effects(
                target: target, written: written[name, default: []], writesSynced: writers.contains(name),
                unknownFunctions: scratch.unknownCalls[name, default: []])
        }
    }
}

extension SyncSchema {
    package var tableStatements: [FileObjects.Object] {
        tables.flatMap { table in
            [FileObjects.Object(kind: .table, name: table.name, sql: table.sql)]
                + table.indexSQL.map { FileObjects.Object(kind: .index, name: "", sql: $0) }
        }
    }
}
