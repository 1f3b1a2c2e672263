package import TidemarkCore

/// One transaction on one zone, as a commit uses it: facts out of the database, and rows into it.
///
/// The rules are in ``CommitGroup``. Every function works on sets, so that a store on a network needs a statement a
/// table, not a row. All functions are synchronous and run on the store's own thread. A store throws
/// ``TidemarkCore/TidemarkError`` or ``Violation``; any other error is a failure of the database.
package protocol CommitTransaction: AnyObject, RowReader {
    /// Refuses values that the tables cannot hold, and drops computed columns, before the transaction begins.
    func prepare(_ changeSet: inout PendingChangeSet) throws

    /// Answers a question about the zone's own rows.
    func records(_ question: RecordQuestion) throws -> RecordAnswer

    /// Finds ids for new records, or lends some to a device.
    func ids(_ question: IDQuestion) throws -> IDAnswer

    /// Writes change sets that name no record twice, and passes on each effect; throws ``Violation`` of a constraint.
    func write(_ changeSets: [PendingChangeSet], _ effect: (Effect) throws -> Void) throws

    /// Logs the changes that other programs made in the tables, if there are any.
    func absorbOutsideChanges() throws

    /// Runs `body` in a savepoint; if it throws, its effects are undone.
    ///
    /// It throws the error if the transaction cannot continue, as on a full disk: then no request has an effect.
    func savepoint<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error>

    /// Returns what a client is told of an error.
    func refusal(for error: any Error) throws -> any Error
}

extension CommitTransaction {
    /// Leaves every value to the tables.
    package func prepare(_ changeSet: inout PendingChangeSet) throws {}

    /// Runs one of several requests of this transaction in a savepoint, and throws if the transaction cannot continue.
    ///
    /// If `body` throws, its effects are undone and this returns the error. The effects of a transaction's only
    /// request, with `alone`, may stay: the caller rolls back.
    func isolated<Success>(alone: Bool, _ body: () throws -> Success) throws -> Result<Success, any Error> {
        let isKept = alone && ways.isLocal || planted(PlantedBug.keepsEffectsOfRefusedRequest)
        let result = try isKept ? Result { try body() } : undoable(body)
        guard case .failure(let error) = result else { return result }
        return .failure(try refusal(for: error))
    }

    /// Runs `body` in a savepoint; if it throws, its effects are undone.
    func attempt<Success>(_ body: () throws -> Success) throws -> Success {
        if planted(PlantedBug.keepsEffectsOfRefused) { return try body() }
        return try undoable(body).get()
    }

    /// Runs `body` in a savepoint, and forgets what the transaction has learned in it if it throws.
    package func undoable<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        let before = books.memory
        let result = try savepoint(body)
        if case .failure = result { books.memory = before }
        return result
    }

    /// Whether a write may change records that no foreign key action explains: the tables have triggers of a program.
    var hasFarEffects: Bool { get throws { try ways.hasFarEffects ?? !rows(RecordSQL.programTriggers).isEmpty } }

    /// Whether the database may spell a key in another way than a change set: as 9.0, or in capitals.
    func mayRespell(_ name: RecordID) -> Bool { ways.tables[name.table].mayRespell(name.key) }

    /// Returns the values of records that exist, in the order of ``TidemarkCore/SyncedTable/columns``.
    func rows(_ names: [RecordID]) throws -> [RecordID: [Value]] {
        try names.isEmpty ? [:] : records(.rows(names)).rows
    }

    /// Returns the records that refer to others, at most `max`.
    func children(of names: [RecordID], max: Int) throws -> [RecordID] {
        try names.isEmpty ? [] : records(.children(of: names, max: max)).children
    }

    /// Returns the other records of a table that hold unique values of a change set.
    func holders(of columns: [String], in table: Int, _ changeSet: PendingChangeSet) throws -> Set<String> {
        try records(.holders(of: columns, in: table, changeSet)).holders
    }

    /// Returns the keys that the database spells another way, as `"abc"` for `"ABC"`; a new one only if its type does.
    func storedKeys(_ changes: [RecordID: Operation]) throws -> [RecordID: String] {
        try changes.isEmpty ? [:] : records(.keys(changes)).keys
    }

    /// Returns values as the database stores them, such as a moment in its own time zone; nil for one that it refuses.
    func storedValues(_ values: [ColumnValue]) throws -> [Value?] {
        let isSpelled = values.contains { ways.tables[$0.table].spelledColumns.contains($0.column) }
        return try isSpelled ? records(.values(values)).values : values.map(\.value)
    }

    /// Returns next ids of tables by place, which nobody had or is lent; a table has no range if no ids are left.
    func nextIDs(_ wanted: [Int: WantedIDs]) throws -> [Int: [ClosedRange<Int64>]] {
        try wanted.isEmpty ? [:] : ids(.next(wanted)).next
    }

    /// Lends ids of tables to a device, for it alone; none of a table whose ids the server cannot lend.
    func lend(_ tables: [String]) throws -> [String: [LentIDs]] { try ids(.lent(tables)).lent }
}

extension RowReader {
    package var schema: SyncSchema { ways.schema }
}

private enum RecordSQL {
    /// Only in SQLite: PostgreSQL's store knows it.
    static let programTriggers = BookStatement(
        "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND name NOT GLOB 'tidemark_*' LIMIT 1")
}

/// A question of a commit about the zone's own rows, about a set each.
package enum RecordQuestion {
    /// Which records of changes exist or have changed, so that the author of a change does not know everything?
    ///
    /// These are creations of records that exist, and updates and deletions of records that do not exist or have
    /// changed after their base. The answer is by the same index, and has the row of an update or a creation.
    case contended([Int: BasedChange])
    case rows([RecordID])
    /// Which records refer to these ones? At most `max`.
    case children(of: [RecordID], max: Int)
    /// Which other records of a table hold unique values, in these columns, of a change set?
    case holders(of: [String], in: Int, PendingChangeSet)
    /// Which keys of changed records does the database spell in another way?
    case keys([RecordID: Operation])
    /// How does the database store values?
    case values([ColumnValue])
}

/// The answer to a ``RecordQuestion``; each question fills one part.
package struct RecordAnswer {
    package var contended: [Int: (exists: Bool, row: [Value]?)] = [:]
    package var rows: [RecordID: [Value]] = [:]
    package var children: [RecordID] = []
    package var holders: Set<String> = []
    package var keys: [RecordID: String] = [:]
    package var values: [Value?] = []

    package init() {}
}

package enum IDQuestion {
    /// Which ids can new records of tables get? The tables are named by their places.
    case next([Int: WantedIDs])
    /// Which ids of tables can a device be lent, that nobody else ever gets?
    case lent([String])
}

package struct IDAnswer {
    /// The next ids; none if none are left.
    package var next: [Int: [ClosedRange<Int64>]] = [:]
    /// The lent ids; none for a table whose ids the server cannot lend.
    package var lent: [String: [LentIDs]] = [:]

    package init() {}
}

/// What a database's store says of a zone before any question.
package final class ZoneWays: Sendable {
    package let schema: SyncSchema
    /// Whether a question is no round trip: nothing is asked in advance, and an insertion finds an existing row.
    package let isLocal: Bool
    /// Whether the tables have triggers of a program; nil if the database must be asked.
    package let hasFarEffects: Bool?
    package let tables: [TableWays]

    package init(schema: SyncSchema, isLocal: Bool, hasFarEffects: Bool?, tables: [TableWays]) {
        self.schema = schema
        self.isLocal = isLocal
        self.hasFarEffects = hasFarEffects
        self.tables = tables
    }
}

/// The ways in which a database stores a table.
package struct TableWays: Sendable {
    /// The places of the columns in which the database reads one value in several spellings.
    package let spelledColumns: Set<Int>
    /// The columns that the database computes, and in which no author edits a value.
    package let computedColumns: Set<String>
    /// Whether the database may spell a key in another way than a change set.
    package let mayRespell: @Sendable (_ key: String) -> Bool

    package init(
        spelledColumns: Set<Int> = [], computedColumns: Set<String> = [],
        mayRespell: @escaping @Sendable (_ key: String) -> Bool
    ) {
        self.spelledColumns = spelledColumns
        self.computedColumns = computedColumns
        self.mayRespell = mayRespell
    }
}

/// Another program committed a change of a record that a transaction uses, and that no revision has yet: the store runs
/// the transaction again.
package struct Overtaken: Error {
    package init() {}
}

/// The ids that new records of a table need.
package struct WantedIDs: Sendable {
    package let least: Int64
    /// How many are needed; a store whose sequence counts the ids draws as many, another one returns a whole range.
    package let count: Int
}

package struct ColumnValue: Sendable {
    /// The place of the table in ``TidemarkCore/SyncSchema/tables``.
    package let table: Int
    /// The place of the column in ``TidemarkCore/SyncedTable/columns``.
    package let column: Int
    package let value: Value
}

/// A change to a record, and the revision on which it is based.
package struct BasedChange: Hashable, Sendable {
    package let name: RecordID
    package let operation: Operation
    package let base: Int64

    func renamed(_ id: Int64) -> BasedChange {
        BasedChange(name: RecordID(table: name.table, key: String(id)), operation: operation, base: base)
    }
}

/// A record that has changed after the base of a change to it, or is missing, or exists already.
package struct ContendedRecord: Sendable {
    /// Whether a row has its key, perhaps in another spelling.
    package let exists: Bool
    /// Its present row; nil if there is none, or it was not asked for.
    package let row: [Value]?
    /// The changes after the base, oldest first; not those in which the database computed values.
    package let changes: [LoggedChange]
}

/// An entry of the log about a record.
package struct LoggedChange: Sendable {
    package let revision: Int64
    /// Whether compaction has merged several changes into the entry.
    package let isMerged: Bool
    /// Whether another device's change after the base is among them, so that the entry is nobody's own.
    package let hidesOthers: Bool
    package let change: UnseenChange
    /// Hashes of the values that the change replaced, by column, where the database reads one in several spellings.
    package var replacedHashes: [String: String] = [:]
}
