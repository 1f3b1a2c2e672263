import GRDB
import Tidemark
import TidemarkHistory

/// A device's file that a ledger reads.
protocol FollowedFile {
    var name: String { get }
    func access<Result>(_ body: (Database) throws -> Result) throws -> Result
}

/// Follows each write of a world of ``Fates`` to its end, by its text.
///
/// A text reaches the zone, or its author has overwritten it or given it up. A device or client that removes a text
/// from the zone has seen it. A text that was removed does not come back, and none is in the zone twice. The rules do
/// without a model of the protocol, so that worlds may migrate, rebuild and restore files in every way.
final class FateLedger {
    /// The texts that the zone has, had, and lost by somebody's edit.
    struct Zone {
        var rows: Set<String> = []
        var arrived: Set<String> = []
        var gone: Set<String> = []
        /// The texts in the column that a migration may drop.
        var extras: Set<String> = []
        /// The ids of lines by their text.
        var lines: [String: Int64] = [:]
    }

    private var zone = Zone()
    private var revision: Int64 = -1
    private var copies: [String: Zone] = [:]
    /// The device that wrote a text.
    private var authors: [String: String] = [:]
    /// The texts that a device's person or program has seen and removed, or decided against.
    private var known: [String: Set<String>] = [:]
    /// The texts in a device's rows.
    private var visible: [String: Set<String>] = [:]
    /// The texts that their author gave up, and those that only a replaced file had.
    private var givenUp: Set<String> = []
    /// The texts of records that somebody made again.
    private var mayReturn: Set<String> = []
    /// The marks of items whose sum and parts a person's decision has torn apart.
    private var looseMarks: Set<String> = []
    /// Whether a sum and its parts may be apart: a person has decided for a sum that no trigger captured, or an app has
    /// written to a table without triggers, so that its transaction is not one change set.
    private var areSumsLoose = false
    /// The texts that a migration wrote on the way to another table, or an app before the engine knew that one.
    private var rebuilt: Set<String> = []
    /// The texts whose records a device has deleted.
    private var graves: [String: Set<String>] = [:]
    private var identities: [String: String] = [:]
    /// The devices on which a program has written without triggers.
    private(set) var hasUncaptured: Set<String> = []
    /// The devices whose items lack a column of the zone's.
    private var hasDropped: Set<String> = []
    private var isRestored = false
    /// Whether the next revision is another program's, which sees all rows.
    var isProgramWriting = false

    // MARK: The server

    /// Judges what a transaction of the server has changed.
    func served(_ db: Database) throws {
        let head = try Int64.fetchOne(db.cachedStatement(sql: "SELECT revision FROM tidemark_zone")) ?? 0
        guard head != revision else { return }
        let texts = try Self.texts(db)
        let rows = Set(texts)
        let lines = try Self.lines(db)
        let extras = try String.fetchSet(db.cachedStatement(sql: "SELECT extra FROM item WHERE extra IS NOT NULL"))
        defer {
            zone.extras = extras
            revision = head
            zone.lines = lines
            zone.arrived.formUnion(rows)
            zone.gone = zone.gone.union(zone.rows).subtracting(rows)
            zone.rows = rows
        }
        guard revision >= 0 else { return }
        let doubled = Dictionary(grouping: texts) { $0 }.filter { $1.count > 1 && !mayReturn.contains($0) }.keys.min()
        if let doubled { throw Finding("I6", actor: "server", detail: "has \(doubled) twice") }
        let revived = rows.subtracting(zone.rows).intersection(zone.gone).subtracting(mayReturn).min()
        if let revived { throw Finding("I6", actor: "server", detail: "\(revived) is back, which was removed") }
        let moved = lines.filter { zone.lines[$0.key, default: $0.value] != $0.value && !mayReturn.contains($0.key) }
        if let text = moved.keys.min() { throw Finding("I6", actor: "server", detail: "\(text) is another line now") }
        try judgeRemoved(zone.rows.subtracting(rows), db)
        try judgeSums(db)
    }

    private func judgeRemoved(_ removed: Set<String>, _ db: Database) throws {
        guard !isProgramWriting, !removed.isEmpty else { return }
        let writers = try String.fetchAll(
            db, sql: "SELECT DISTINCT device FROM tidemark_revision WHERE revision > ? AND device IS NOT NULL",
            arguments: [revision]
        ).map { identities[$0] ?? $0 }
        var seen = writers.reduce(into: Set<String>()) { $0.formUnion(known[$1] ?? []) }
        // Who deletes a record without one of its columns takes that value along.
        if !hasDropped.isDisjoint(with: writers) { seen.formUnion(zone.extras) }
        guard let unseen = removed.subtracting(seen).min() else { return }
        let detail = "removes \(unseen), which it has not seen"
        throw Finding("rule 1", actor: writers.joined(separator: ", "), detail: detail)
    }

    private func judgeSums(_ db: Database) throws {
        let sums = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT mark, amount, (SELECT coalesce(sum(n), 0) FROM posting WHERE item_id = item.id) AS total
                    FROM item WHERE amount <> total
                    """)
        )
        if let row = sums.first(where: { !areSumsLoose && !looseMarks.contains($0[0]) }) {
            let detail = "the item \(row[0] as String) has \(row[1] as Int64) instead of \(row[2] as Int64)"
            throw Finding("I11", actor: "server", detail: detail)
        }
        let strangers = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT part.name, part.mark, item.mark
                    FROM part JOIN item ON item.id = item_id WHERE part.mark <> item.mark
                    """)
        )
        guard let row = strangers.first(where: { looseMarks.isDisjoint(with: [$0[1], $0[2]]) }) else { return }
        let detail = "the part \(row[0] as String) of \(row[1] as String) is at \(row[2] as String)"
        throw Finding("I8", actor: "server", detail: detail)
    }

    /// Keeps the state of a copied file.
    func copiedServer(as name: String) { copies[name] = zone }

    /// Goes back to the state of a copy of the server's file.
    ///
    /// Only a file that still has a text can offer it again.
    func restored(_ db: Database, from name: String, devices: [any FollowedFile]) throws {
        let before = zone
        isRestored = true
        zone = copies[name] ?? Zone()
        revision = try Int64.fetchOne(db, sql: "SELECT revision FROM tidemark_zone") ?? 0
        graves = [:]
        for text in before.arrived.subtracting(zone.arrived) {
            guard let author = authors[text], let device = devices.first(where: { $0.name == author }) else { continue }
            if try !device.access({ try Self.holds($0, text) }) { givenUp.insert(text) }
        }
    }

    // MARK: Devices

    /// Looks at a device's rows after a step of the engine.
    func look(at device: any FollowedFile) throws {
        let (texts, identity) = try device.access { db in
            (try Self.texts(db), try String.fetchOne(db, sql: "SELECT device FROM tidemark_device") ?? "")
        }
        identities[identity] = device.name
        visible[device.name] = Set(texts)
        let missing = try device.access { db in
            try authors.filter { isOpen($0.key, of: $0.value) && $0.value == device.name && !texts.contains($0.key) }
                .map(\.key).sorted().first { try !Self.holds(db, $0) }
        }
        guard let missing else { return }
        throw Finding("I9", actor: device.name, detail: "\(missing) is in its file no more, and never arrived")
    }

    private func isOpen(_ text: String, of author: String) -> Bool {
        !zone.arrived.contains(text) && !givenUp.contains(text) && known[author]?.contains(text) != true
    }

    /// The ways in which rows of a device are written.
    enum Writing { case app, migration, withoutTriggers }

    /// Takes in a write of a person or a program into a device's rows.
    func edited(_ device: any FollowedFile, by writing: Writing = .app) throws {
        let before = visible[device.name] ?? []
        let after = Set(try device.access(Self.texts))
        let removed = before.subtracting(after)
        for text in after.subtracting(before) where authors[text] == nil { authors[text] = device.name }
        known[device.name, default: []].formUnion(removed)
        graves[device.name, default: []].formUnion(removed)
        visible[device.name] = after
        if writing == .withoutTriggers { hasUncaptured.insert(device.name) }
        let bare = try device.access(Self.tablesWithoutTriggers)
        if writing == .migration || !bare.isEmpty { rebuilt.formUnion(after.subtracting(before)) }
        if writing == .app, !bare.isDisjoint(with: ["item", "posting"]) { areSumsLoose = true }
    }

    /// The tables that an app has made again, and the engine has not seen since.
    static func tablesWithoutTriggers(_ db: Database) throws -> Set<String> {
        let sql = """
            SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'tidemark_after_update_%'
            """
        return try Set(Fates.texts.map(\.table)).subtracting(String.fetchSet(db.cachedStatement(sql: sql)))
    }

    /// Takes in that a migration has dropped a column.
    func dropped(_ device: any FollowedFile) throws {
        hasDropped.insert(device.name)
        visible[device.name] = Set(try device.access(Self.texts))
    }

    /// Handles that a device has an earlier copy of its file.
    func replaced(_ device: any FollowedFile) throws {
        let open = authors.filter { $0.value == device.name && isOpen($0.key, of: $0.value) }.map(\.key)
        graves[device.name] = nil
        givenUp.formUnion(try device.access { db in try open.filter { try !Self.holds(db, $0) } })
        // The copy has a row as it was before it was sent, and nothing tells it from a new one.
        if hasUncaptured.contains(device.name) {
            mayReturn.formUnion(zone.arrived.intersection(try device.access(Self.texts)))
        }
        try look(at: device)
    }

    /// A decision of a person about a conflict as it was shown.
    struct Decision {
        let conflict: Conflict
        let resolution: Resolution
        let takenIDs: TakenIDs
        /// The texts of the records that a retried deletion takes along, as the conflict shows.
        let along: Set<String>
    }

    /// Judges a conflict that a device shows.
    ///
    /// After a restore, nothing tells who made a row of a rebuilt table that the zone does not have.
    func shown(_ conflict: Conflict, on device: any FollowedFile) throws {
        guard Self.isUncaptured(conflict), !hasUncaptured.contains(device.name) else { return }
        let records = conflict.records.filter { !isRestored || $0.operation != "create" }
        let texts = records.flatMap { Self.cells($0.mine).filter { $0.key != "mark" }.values }
        guard texts.contains(where: { authors[$0] == device.name && !rebuilt.contains($0) }) else { return }
        throw Finding("I6", actor: device.name, detail: "takes captured edits for uncaptured ones: \(conflict)")
    }

    private static func isUncaptured(_ conflict: Conflict) -> Bool {
        conflict.reasons.contains { $0.rule == "uncaptured" }
    }

    /// Takes in a decision that the engine has carried out.
    func decided(_ decision: Decision, on device: any FollowedFile) throws {
        graves[device.name] = nil
        for record in decision.conflict.records {
            let mine = Self.cells(record.mine)
            guard decision.resolution != .accept else {
                givenUp.formUnion(mine.values)
                // The person has seen what an edit of a record was made on that the zone does not have.
                if record.theirs == nil { givenUp.formUnion(Self.cells(record.base).values) }
                continue
            }
            let theirs = Self.cells(record.theirs)
            // A retry replaces the server's values, this device's later ones, and those on which the author built.
            for version in [theirs, Self.cells(record.here), Self.cells(record.base)] {
                known[device.name, default: []].formUnion(Self.overruled(record, version, by: decision))
            }
            // A person decides for the values of a rebuilt table, although the zone's are newer perhaps.
            if decision.conflict.reasons.contains(where: { $0.key == nil && $0.rule == "changed" }) {
                mayReturn.formUnion(mine.values)
            }
            let all = Set(Self.cells(record.base).values).union(mine.values)
            // A row of a comparison may be an older one of the server's, and the conflict shows which.
            let isUncaptured = Self.isUncaptured(decision.conflict)
            if record.theirs == nil || record.operation == "delete" || isUncaptured { mayReturn.formUnion(all) }
            if isUncaptured { areSumsLoose = areSumsLoose || ["item", "posting"].contains(record.table) }
            if record.theirs == nil || decision.takenIDs == .replace {
                looseMarks.formUnion([mine, theirs, Self.cells(record.base)].compactMap { $0["mark"] })
            }
            guard case .merge(let merged) = decision.resolution else { continue }
            for case let columns? in merged.filter({ $0.key == record.key && $0.table == record.table }).map(\.columns)
            {
                givenUp.formUnion(columns.keys.compactMap { mine[$0] })
                for text in columns.values.compactMap(String.fromDatabaseValue) { authors[text] = device.name }
            }
        }
        known[device.name, default: []].formUnion(decision.along)
        try look(at: device)
    }

    /// The server's texts that the person decides against.
    private static func overruled(_ record: Conflict.Record, _ theirs: [String: String], by decision: Decision)
        -> [String]
    {
        let set = Set(JSONText.members(Array((record.mine ?? "").utf8)[...]).map(\.name))
        switch record.operation {
        case "update": return theirs.filter { set.contains($0.key) }.map(\.value)
        case "create" where decision.takenIDs == .replace: return Array(theirs.values)
        case "create": return record.table == "setting" ? theirs.filter { set.contains($0.key) }.map(\.value) : []
        case "delete": return Array(theirs.values)
        default: return decision.conflict.records.contains { $0.operation == "delete" } ? Array(theirs.values) : []
        }
    }

    // MARK: The end

    /// Judges the end of a world, in which nothing waits.
    func finish(_ devices: [any FollowedFile], _ server: Database) throws {
        let open = authors.sorted { $0.key < $1.key }.first { text, author in
            // A device with columns of its own cannot compare its rows, so an uncaptured edit stays in them unnoticed.
            isOpen(text, of: author) && !(hasUncaptured.contains(author) && visible[author]?.contains(text) == true)
        }
        if let open { throw Finding("I9", actor: open.value, detail: "\(open.key) never reached the zone") }
        for (device, texts) in graves.sorted(by: { $0.key < $1.key }) {
            guard let text = texts.intersection(zone.rows).subtracting(mayReturn).min() else { continue }
            throw Finding("I9", actor: device, detail: "has removed \(text), which the zone still has")
        }
        for device in devices where !hasUncaptured.contains(device.name) {
            for (table, _) in Fates.texts {
                let columns = try Set(device.access { try Self.columns(of: table, $0) })
                let shared = try Self.columns(of: table, server).filter(columns.contains)
                let sql = "SELECT \(shared.joined(separator: ", ")) FROM main.\(table) ORDER BY 1"
                let rows = try device.access { try Row.fetchAll($0, sql: sql).map(\.description) }
                let truth = try Row.fetchAll(server, sql: sql).map(\.description)
                guard rows != truth else { continue }
                let extra = rows.first { !truth.contains($0) } ?? "no other row"
                let missing = truth.first { !rows.contains($0) } ?? "no other row"
                throw Finding("I5", actor: device.name, detail: "\(table): has \(extra), the server has \(missing)")
            }
        }
    }

    // MARK: Reading

    /// The columns of a table.
    static func columns(of table: String, _ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table])
    }

    /// All texts of writes in a file's rows.
    private static func texts(_ db: Database) throws -> [String] {
        try Fates.texts.flatMap { table, columns in
            let present = try Self.columns(of: table, db)
            return try columns.filter(present.contains).flatMap {
                try String.fetchAll(db, sql: "SELECT \($0) FROM main.\(table) WHERE \($0) IS NOT NULL")
            }
        }
    }

    private static func lines(_ db: Database) throws -> [String: Int64] {
        let rows = try Row.fetchAll(db.cachedStatement(sql: "SELECT name, id FROM line WHERE name IS NOT NULL"))
        return Dictionary(rows.map { ($0[0], $0[1]) }, uniquingKeysWith: { $1 })
    }

    /// Whether a device's file has a text anywhere.
    private static func holds(_ db: Database, _ text: String) throws -> Bool {
        let tables = try String.fetchAll(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table'")
        return try tables.contains { table in
            let cells = try columns(of: table, db).map { "\"\($0)\" IS ?1 OR instr(\"\($0)\", ?2)" }
            let sql = "SELECT EXISTS (SELECT 1 FROM main.\"\(table)\" WHERE \(cells.joined(separator: " OR ")))"
            return try Bool.fetchOne(db, sql: sql, arguments: [text, "\"\(text)\""]) ?? false
        }
    }

    private static func cells(_ json: String?) -> [String: String] {
        guard let json else { return [:] }
        let members = JSONText.members(Array(json.utf8)[...]).filter { $0.value.first == UInt8(ascii: "\"") }
        return Dictionary(members.map { ($0.name, JSONText.string($0.value)) }, uniquingKeysWith: { $1 })
    }
}
