import GRDB
package import TidemarkCore

/// Tries the objects of a file out in a scratch database, beside its tables.
///
/// The result depends on the statements only. A server runs it to learn what its file's triggers do, and
/// a device to learn which of a server's statements it can accept.
package struct ObjectTrial {
    /// A trigger's effects.
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
    /// The effects of the accepted triggers.
    package private(set) var effects: [String: Effects] = [:]
    /// The functions of tables and indexes that this process does not have.
    package let tableFunctions: Set<String>
    /// All functions that this process does not have.
    package private(set) var unknownFunctions: Set<String> = []
    /// All collations that this process does not have.
    package private(set) var unknownCollations: Set<String> = []

    private let scratch: ScratchSchema
    private var targets: [String: String] = [:]

    /// Tries objects out.
    ///
    /// - Parameters:
    ///   - objects: The objects, in the order of their creation.
    ///   - tables: The statements of the tables and indexes beside which they stand.
    ///   - synced: The names of the synced tables.
    /// - Throws: `DatabaseError` if the scratch database cannot be made or read.
    package init(_ objects: [FileObjects.Object], beside tables: [FileObjects.Object], synced: Set<String>) throws {
        scratch = try ScratchSchema()
        for table in tables { if let reason = scratch.create(table) { reasons[table.name] = reason } }
        tableFunctions = scratch.unknownFunctions
        for kind in FileObjects.Object.Kind.allCases {
            for object in objects where object.kind == kind { try take(object) }
        }
        for object in accepted where object.kind == .view {
            guard let reason = scratch.compile("SELECT * FROM main.\(SQLText.name(object.name))") else { continue }
            try reject(object, because: reason)
        }
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
        guard object.kind == .trigger else { return }
        let target = try scratch.read {
            try String.fetchOne(
                $0,
                sql: "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name = ?",
                arguments: [object.name]
            ) ?? ""
        }
        targets[object.name] = target
        if let reason = try compileWrites(to: target) { try reject(object, because: reason) }
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
        try scratch.read { try $0.execute(sql: "DROP \(object.kind.rawValue) \(SQLText.name(object.name))") }
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
                target: target,
                written: written[name, default: []],
                writesSynced: writers.contains(name),
                unknownFunctions: scratch.unknownCalls[name, default: []]
            )
        }
    }
}

extension SyncSchema {
    /// The statements of the tables and their indexes.
    package var tableStatements: [FileObjects.Object] {
        tables.flatMap { table in
            [FileObjects.Object(kind: .table, name: table.name, sql: table.sql)]
                + table.indexSQL.map { FileObjects.Object(kind: .index, name: "", sql: $0) }
        }
    }
}
