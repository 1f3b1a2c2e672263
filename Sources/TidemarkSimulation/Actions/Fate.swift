import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// An app alters or rebuilds any of its tables, at its next start or while it runs.
struct AlterFile: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.followsFates ? decisions.pick([2, 0, 4, 8]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice(), let ledger = world.recorder.ledger,
            !ledger.hasUncaptured.contains(device.name)
        else { return false }
        try Self.alter(device, ledger, in: world)
        return true
    }

    /// Alters a file by one of the kinds.
    static func alter(_ device: SimulatedDevice, _ ledger: FateLedger, in world: World) throws {
        let table = world.decisions.pick(Fates.texts).table
        let kind = world.decisions.pick(Kind.allCases)
        let restarts = world.decisions.chance(50)
        world.writes += 1
        let text = "d\(device.number).\(world.writes)"
        let place = world.decisions.decide(world.plan.spread)
        world.counters[.migrations] += 1
        world.note("\(device.name) migrates\(restarts ? " at its start" : ""): \(kind) \(table)", ", \(text)")
        // What the engine has done since the last look is no part of the migration.
        try ledger.look(at: device)
        if restarts { try device.crash(opensAnew: world.decisions.chance(50)) { _ in 0 } }
        try device.alter { db in
            let own = try FateLedger.columns(of: table, db).first { $0.hasPrefix("own") }
            switch kind {
            case .addColumn: try db.execute(sql: "ALTER TABLE \(table) ADD COLUMN own\(world.writes) TEXT")
            case .addTable: try db.execute(sql: "CREATE TABLE own\(world.writes) (id INTEGER PRIMARY KEY, a TEXT)")
            case .renameColumn:
                guard let own else { return }
                try db.execute(sql: "ALTER TABLE \(table) RENAME COLUMN \(own) TO own\(world.writes)")
            case .dropServedColumn:
                guard try FateLedger.columns(of: "item", db).contains("extra") else { return }
                try Self.rebuild("item", db, changing: "ALTER TABLE new DROP COLUMN extra")
            case .rebuild: try Self.rebuild(table, db)
            case .rebuildAndEdit:
                let column = table == "setting" ? "value" : "name"
                let key = table == "setting" ? "key" : "id"
                let row = "(SELECT \(key) FROM \(table) ORDER BY 1 LIMIT 1 OFFSET \(place % 4))"
                try Self.rebuild(table, db, changing: "UPDATE new SET \(column) = '\(text)' WHERE \(key) = \(row)")
            }
        }
        try kind == .dropServedColumn ? ledger.dropped(device) : ledger.edited(device, by: .migration)
        if restarts { try device.begin() }
        try world.recorder.stepped(device, "begin")
    }

    enum Kind: CaseIterable {
        case addColumn, addTable, renameColumn, dropServedColumn, rebuild, rebuildAndEdit
    }

    /// Makes a table again, in the way that SQLite's manual describes; `change` changes the rows on the way.
    static func rebuild(_ table: String, _ db: Database, changing change: String = "") throws {
        let old = try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = ?", arguments: [table]) ?? ""
        let indexes = try String.fetchAll(
            db, sql: "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
            arguments: [table])
        let body = old.drop { $0 != "(" }
        try db.execute(
            sql: """
                CREATE TABLE new \(body);
                INSERT INTO new SELECT * FROM \(table);
                \(change);
                DROP TABLE \(table);
                ALTER TABLE new RENAME TO \(table);
                \(indexes.joined(separator: ";\n"))
                """)
    }
}

/// A program writes a table whole: it deletes all rows, and inserts them again, one of them perhaps changed.
struct RewriteTable: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.followsFates ? decisions.pick([2, 0, 4]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice(), let ledger = world.recorder.ledger,
            device.processes[SimulatedDevice.app].round == nil, try device.waiting().edits == 0,
            try device.access(FateLedger.tablesWithoutTriggers).isEmpty
        else { return false }
        let isLine = world.decisions.chance(70)
        let (table, column) = isLine ? ("line", "name") : ("setting", "value")
        let columns = isLine ? "name, place" : "key, value, note"
        world.writes += 1
        let text = "o\(device.number).\(world.writes)"
        let changes = world.decisions.chance(30)
        let place = world.decisions.decide(3)
        world.note("\(device.name), a program writes \(table) whole", changes ? ", with \(text)" : "")
        try ledger.look(at: device)
        try device.writeOutside { db in
            try db.execute(
                sql: """
                    CREATE TEMP TABLE whole AS SELECT * FROM \(table) ORDER BY 1;
                    \(changes ? "UPDATE whole SET \(column) = '\(text)' WHERE rowid = \(place + 1);" : "")
                    DELETE FROM \(table);
                    INSERT INTO \(table) (\(columns)) SELECT \(columns) FROM whole;
                    DROP TABLE whole
                    """)
        }
        try ledger.edited(device)
        if !ledger.hasUncaptured.contains(device.name), world.decisions.chance(30) {
            try AlterFile.alter(device, ledger, in: world)
        }
        return try world.beginSync(device, process: SimulatedDevice.app)
    }
}

/// A program that has switched triggers off writes into a device's file.
struct EditUncaptured: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.followsFates ? decisions.pick([0, 1, 3]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.device(), let ledger = world.recorder.ledger, try isCompared(device) else {
            return false
        }
        world.writes += 1
        let text = "u\(device.number).\(world.writes)"
        let sql = world.decisions.pick([
            "UPDATE item SET name = ?1 WHERE id = \(Fates.item2)",
            "INSERT INTO part (item_id, mark, name) SELECT id, mark, ?1 FROM item WHERE id = \(Fates.item2)",
            "INSERT INTO item (mark, name) SELECT 'm' || ?1, ?1 WHERE ?2 >= 0",
            "INSERT OR IGNORE INTO setting (key, value) VALUES ('k' || (?2 % 6), ?1)",
        ])
        let place = world.decisions.decide(world.plan.spread)
        world.note("\(device.name), a program without triggers writes \(text)", ": \(sql.prefix(30))")
        try ledger.look(at: device)
        try device.writeOutside { db in
            try db.execute(sql: "UPDATE tidemark_state SET applying = 1")
            try db.execute(sql: sql, arguments: [text, place])
            try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
        }
        try ledger.edited(device, by: .withoutTriggers)
        return true
    }

    /// Whether the device compares its rows with the server's: it has no other columns, and has found them equal.
    private func isCompared(_ device: SimulatedDevice) throws -> Bool {
        try device.access { db in
            let columns = try Fates.texts.flatMap { try FateLedger.columns(of: $0.table, db) }
            let sql = "SELECT fingerprint IS NOT NULL AND checked IS NOT NULL AND rebuilt IS NULL FROM tidemark_device"
            let isChecked = try Bool.fetchOne(db.cachedStatement(sql: sql)) ?? false
            return isChecked && columns.contains("extra") && !columns.contains { $0.hasPrefix("own") }
        }
    }
}

/// A client without rows reads an amount, and sets it much later, with the tag that it saw.
struct SetAmount: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.followsFates ? decisions.pick([2, 0, 6]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard world.server.isUp else { return false }
        try world.server.absorb()
        try world.recorder.served(world.server, request: nil, .success(nil))
        guard let look = world.amount else {
            let ids = try world.server.read { try Int64.fetchAll($0, sql: "SELECT id FROM item ORDER BY id") }
            guard !ids.isEmpty else { return false }
            let id = ids[world.decisions.decide(min(ids.count, world.plan.spread))]
            let request = RestRequest(method: "GET", path: "tables/item/\(id)")
            let answer = try world.server.ask { try RestRoutes.answer(request, $0) }
            let members = JSONText.members(Array((answer.body ?? "").utf8)[...])
            guard let tag = answer.entityTag, let cell = members.first(where: { $0.name == "amount" }),
                let amount = Int64(JSONText.raw(cell.value))
            else { return false }
            world.note("a client reads the amount \(amount) of item \(id)", ", \(tag)")
            world.amount = AmountLook(item: id, tag: tag, amount: amount)
            return true
        }
        world.amount = nil
        return try set(look, in: world)
    }

    private func set(_ look: AmountLook, in world: World) throws -> Bool {
        world.writes += 1
        let new = look.amount + Int64(world.decisions.pick([1, 1, 2, -1]))
        let text = "r.\(world.writes)"
        world.note("a client sets the amount of item \(look.item) from \(look.amount) to \(new)", ", \(text)")
        let posting = #"{"item_id":\#(look.item),"name":"\#(text)","n":\#(new - look.amount)}"#
        let tag = ValueJSON.text(Array(look.tag.utf8))
        let request = RestRequest(
            method: "POST",
            path: "batch",
            headers: [
                "Idempotency-Key": VirtualEnvironment(seed: UInt64(world.writes)).newID().uuidString.lowercased()
            ],
            body: """
                {"atomic":true,"requests":[{"method":"POST","path":"tables/posting","body":\(posting)},\
                {"method":"PATCH","path":"tables/item/\(look.item)","ifMatch":\(tag),"body":{"amount":\(new)}}]}
                """)
        do {
            let zoneRequest = ZoneRequest(.write(try RestRoutes.writes(of: request)), access: .local("main"))
            _ = try world.server.handle([zoneRequest], crash: .never) { db, _, _ in
                try world.recorder.served(db, request: nil, .success(nil), at: world.server.wall)
            }
        } catch let finding as Finding { throw finding } catch {
            world.note("it is refused", ": \(error)")
        }
        return true
    }
}

extension SimulatedDevice: FollowedFile {}

/// An amount that a client has read.
struct AmountLook {
    let item: Int64
    let tag: String
    let amount: Int64
}

/// A person looks at a device's conflicts, and decides later.
struct LookAtConflicts: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.followsFates ? decisions.pick([3, 1, 6]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice() else { return false }
        let conflicts = try world.show(device)
        for conflict in conflicts where world.views[conflict.id] == nil { world.views[conflict.id] = conflict }
        return !conflicts.isEmpty
    }
}

extension World {
    /// The conflicts that a device shows now.
    func show(_ device: SimulatedDevice) throws -> [Conflict] {
        let conflicts = try device.access { try SyncEngine.conflicts(in: $0) }
        for conflict in conflicts { try recorder.ledger?.shown(conflict, on: device) }
        return conflicts
    }

    /// Decides a conflict as it was shown, perhaps long ago.
    ///
    /// If the engine refuses that, the person looks again, and decides the same or waits.
    func decide(_ id: String, on device: SimulatedDevice, retries: Bool) throws {
        guard let now = try show(device).first(where: { $0.id == id }) else { return }
        let shown = views[id] ?? now
        views[id] = nil
        guard retries else {
            counters[.accepted] += 1
            return try carryOut(.accept, of: shown, on: device)
        }
        counters[.retried] += 1
        let resolution = drawMerge(of: shown, on: device)
        do { try carryOut(resolution, of: shown, on: device) } catch let error as TidemarkError
            where error.code == .preconditionFailed
        {
            note("it has changed again", ": \(error)")
            views[id] = now
        } catch let error as TidemarkError where error.code == .invalidArgument {
            note("it does not fit", ": \(error)")
            guard resolution == .retry else { return }
            do { try carryOut(.retry, of: shown, takenIDs: decisions.pick([.asNew, .replace]), on: device) } catch let
                error
                as TidemarkError
                where [.preconditionFailed, .invalidArgument, .constraintViolated].contains(error.code)
            { note("it does not fit", ": \(error)") }
        } catch let error as TidemarkError where [.constraintViolated, .unknownColumn].contains(error.code) {
            note("it does not fit", ": \(error)")
        }
    }

    /// A retry, or a merge that gives the first text of an update another value.
    private func drawMerge(of conflict: Conflict, on device: SimulatedDevice) -> Resolution {
        guard decisions.chance(25), !conflict.records.contains(where: { $0.table == "posting" }),
            let record = conflict.records.first(where: { $0.operation == "update" && $0.mine != nil })
        else { return .retry }
        let members = JSONText.members(Array((record.mine ?? "").utf8)[...])
        let names = Fates.texts.first { $0.table == record.table }?.columns ?? []
        guard let column = members.first(where: { names.contains($0.name) })?.name else { return .retry }
        writes += 1
        let value = "m\(device.number).\(writes)".databaseValue
        return .merge([MergedRecord(table: record.table, key: record.key, columns: [column: value])])
    }

    private func carryOut(
        _ resolution: Resolution, of conflict: Conflict, takenIDs: TakenIDs = .refuse, on device: SimulatedDevice
    ) throws {
        note("\(device.name) decides \(conflict.id): \(resolution), \(takenIDs)", ": \(conflict)")
        try recorder.ledger?.look(at: device)
        let children = conflict.takenAlong.filter { $0.table != "item" }
        let along = try device.access { db in
            try children.compactMap { child in
                try String.fetchOne(db, sql: "SELECT name FROM \(child.table) WHERE id = ?", arguments: [child.key])
            }
        }
        try device.write { db in
            try ResolveConflict(db: db, schema: DeviceFile(db).schema, seen: .shown(conflict), takenIDs: takenIDs)
                .resolve(conflict.id, resolution)
        }
        try recorder.ledger?.decided(
            .init(conflict: conflict, resolution: resolution, takenIDs: takenIDs, along: Set(along)), on: device)
    }
}
