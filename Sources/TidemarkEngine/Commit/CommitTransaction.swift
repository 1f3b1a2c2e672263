package import TidemarkCore

/// One transaction on one zone, as a commit uses it: facts out of the database, and rows into it.
///
/// The rules are in ``CommitGroup``. Every function works on sets, so that a store on a network needs a statement a
/// table, not a row. All functions are synchronous and run on the store's own thread. A store throws
/// ``TidemarkCore/TidemarkError`` or ``Violation``; any other error is a failure of the database.
package protocol CommitTransaction: AnyObject, RowReader {
    /// What the transaction knows of the zone's books.
    var books: BookState { get set }

    /// Whether a write may change records that no foreign key action explains: the tables have triggers of a program.
    var hasFarEffects: Bool { get throws }

    /// Refuses values that the tables cannot hold, and leaves out those of columns that the database computes.
    ///
    /// It is called before the transaction begins.
    func prepare(_ changeSet: inout PendingChangeSet) throws

    /// Whether the database may spell a key in another way than a change set: as 9.0, or in capitals.
    func mayRespell(_ name: RecordID) -> Bool

    /// Returns the keys that the database spells in another way, such as `"abc"` for `"ABC"`.
    ///
    /// A new record gets another key only if the type of its column changes it.
    func storedKeys(_ changes: [RecordID: Operation]) throws -> [RecordID: String]

    /// Returns values as the database stores them, such as a moment in its own time zone; nil for one that it does not
    /// take.
    func storedValues(_ values: [ColumnValue]) throws -> [Value?]

    /// Returns the records about which the author of a change does not know everything.
    ///
    /// These are creations of records that exist, and updates and deletions of records that do not exist or have
    /// changed after their base. Changes and records are by the same index.
    func contended(_ changes: [Int: BasedChange]) throws -> [Int: ContendedRecord]

    /// Returns those of changed records that have changed after a base, without their rows.
    ///
    /// The index of a change is the key.
    func laterChanges(_ changes: [BasedChange]) throws -> [Int: ContendedRecord]

    /// Returns some of the next ids of tables: no record has or had one of them, and none is lent to a device.
    ///
    /// Tables are named by their places. A table has no range if no ids are left.
    func nextIDs(_ wanted: [Int: WantedIDs]) throws -> [Int: [ClosedRange<Int64>]]

    /// Writes change sets that name no record twice, and passes on the effect on each record.
    ///
    /// - Throws: ``Violation`` when a constraint fails or a reference dangles.
    func write(_ changeSets: [PendingChangeSet], _ effect: (Effect) throws -> Void) throws

    /// Returns the values of records that exist, in the order of ``TidemarkCore/SyncedTable/columns``.
    func rows(_ names: [RecordID]) throws -> [RecordID: [Value]]

    /// Returns the last revision of each record; for a record without one, that of the zone's first rows.
    func revisions(of names: [RecordID]) throws -> [RecordID: Int64]

    /// Returns the records that refer to others, at most `max`.
    func children(of names: [RecordID], max: Int) throws -> [RecordID]

    /// Returns the other records of a table that hold unique values of a change set.
    func holders(of columns: [String], in table: Int, _ changeSet: PendingChangeSet) throws -> Set<String>

    /// Computes the fingerprint of all rows.
    func fingerprintOfRows() throws -> Fingerprint

    /// Whether the database reads one value of a column in several spellings, by the places of column and table.
    func hasSpellings(_ column: Int, of table: Int) -> Bool

    /// Logs the changes that other programs made in the tables, if there are any.
    func absorbOutsideChanges() throws

    /// Lends ids of tables to a device, which no other device and no server assigns.
    ///
    /// - Returns: The lent ids of each table; none for a table whose ids the server cannot lend.
    func lend(_ tables: [String]) throws -> [String: [LentIDs]]

    /// Whether the store lends ids from the range in which the server assigns its own.
    var lendsOwnIDs: Bool { get throws }

    /// Runs one of several requests of this transaction in a savepoint.
    ///
    /// If it throws, its effects are undone and its error is returned. The effects of the only request of a
    /// transaction, with `alone`, may stay: the caller rolls back.
    ///
    /// - Throws: The error if the transaction cannot continue: the database is unreachable, its
    ///   disk is full, or it has rolled back. Then no request of the transaction has an effect.
    func isolated<Success>(alone: Bool, _ body: () throws -> Success) throws -> Result<Success, any Error>

    /// Runs `body` in a savepoint; if it throws, its effects are undone.
    func attempt<Result>(_ body: () throws -> Result) throws -> Result
}

extension CommitTransaction {
    /// Leaves every value to the tables.
    package func prepare(_ changeSet: inout PendingChangeSet) throws {}

    /// A value has one spelling.
    package func hasSpellings(_ column: Int, of table: Int) -> Bool { false }

    /// Every value is stored as it is.
    package func storedValues(_ values: [ColumnValue]) throws -> [Value?] { values.map(\.value) }
}

/// The state of a zone at the beginning of a commit.
package struct CommitHead: Sendable {
    /// The zone's state.
    package var state: ZoneState
    /// The hash of its history.
    package var chain: String
    /// The stored fingerprint of its rows.
    package var fingerprint: Fingerprint?
    /// Whether other programs have changed rows that no revision has.
    package var hasOutsideChanges: Bool
    /// The revision of the rows that existed before the zone.
    package let adopted: Int64
    /// The number of the last note of overruled values.
    var notes: Int64

    /// Makes a state.
    package init(
        state: ZoneState,
        chain: String,
        fingerprint: Fingerprint?,
        hasOutsideChanges: Bool,
        adopted: Int64,
        notes: Int64
    ) {
        self.state = state
        self.chain = chain
        self.fingerprint = fingerprint
        self.hasOutsideChanges = hasOutsideChanges
        self.adopted = adopted
        self.notes = notes
    }
}

/// The ids that new records of a table need.
package struct WantedIDs: Sendable {
    /// The lowest id.
    package let least: Int64
    /// How many are needed; a store whose sequence counts the ids draws as many, another one returns a whole range.
    package let count: Int

    /// Makes a wish.
    package init(least: Int64, count: Int) {
        self.least = least
        self.count = count
    }
}

/// A value for a column.
package struct ColumnValue: Sendable {
    /// The place of the table in ``TidemarkCore/SyncSchema/tables``.
    package let table: Int
    /// The place of the column in ``TidemarkCore/SyncedTable/columns``.
    package let column: Int
    /// The value.
    package let value: Value

    /// Makes a value.
    package init(table: Int, column: Int, value: Value) {
        self.table = table
        self.column = column
        self.value = value
    }
}

/// What a group of requests asks of the books.
package struct FactsQuery: Sendable {
    /// The ids of change sets.
    package var changeSets: [String] = []
    /// The devices.
    package var devices: Set<String> = []
    /// The temporary ids that devices name without creating their records in the same change set.
    package var temporaryIDs: [DeviceID: Set<TemporaryName>] = [:]
    /// The temporary ids of new records.
    ///
    /// One that already has a permanent id was used before. They are not looked for if the insertion of the permanent
    /// id finds this.
    package var newTemporaryIDs: [DeviceID: [TemporaryName]] = [:]
    /// The lowest revision of a requesting device; nil without requests.
    package var oldest: Int64?

    /// A device.
    package typealias DeviceID = String

    /// Makes an empty query.
    package init() {}
}

/// A temporary id.
package struct TemporaryName: Hashable, Sendable {
    /// The place of the table in ``TidemarkCore/SyncSchema/tables``.
    package let table: Int
    /// The temporary id, as the wire has it: negative.
    package let id: Int64

    /// Makes a name.
    package init(table: Int, id: Int64) {
        self.table = table
        self.id = id
    }
}

/// What the books say about a group of requests.
package struct Facts: Sendable {
    /// The stored verdicts, by the id of the change set.
    package var verdicts: [String: Verdict] = [:]
    /// The last exchange with each device that had one.
    package var exchanges: [String: Exchange] = [:]
    /// The devices with notes of overruled values.
    package var devicesWithNotes: Set<String> = []
    /// The permanent ids that devices got for temporary ones.
    package var permanentIDs: [FactsQuery.DeviceID: [TemporaryName: Int64]] = [:]

    /// Makes empty facts.
    package init() {}
}

/// A change to a record, and the revision on which it is based.
package struct BasedChange: Hashable, Sendable {
    /// The record.
    package let name: RecordID
    /// The kind of change.
    package let operation: Operation
    /// The revision.
    package let base: Int64

    /// Makes a change.
    package init(name: RecordID, operation: Operation, base: Int64) {
        self.name = name
        self.operation = operation
        self.base = base
    }

    /// Returns the change to a record with a permanent id.
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

    /// Makes a record.
    package init(exists: Bool, row: [Value]?, changes: [LoggedChange]) {
        self.exists = exists
        self.row = row
        self.changes = changes
    }
}

/// An entry of the log about a record.
package struct LoggedChange: Sendable {
    /// The revision.
    package let revision: Int64
    /// Whether compaction has merged several changes into the entry, so that it is nobody's own.
    package let isMerged: Bool
    /// What the change did.
    package let change: UnseenChange
    /// Hashes of the values that an update replaced, by column, where the database reads one in several spellings.
    package let replacedHashes: [String: String]

    /// Makes an entry.
    package init(revision: Int64, isMerged: Bool, change: UnseenChange, replacedHashes: [String: String] = [:]) {
        self.revision = revision
        self.isMerged = isMerged
        self.change = change
        self.replacedHashes = replacedHashes
    }
}

/// What a commit stores.
package struct ZoneCommit {
    /// The revisions, in their order.
    package var revisions: [CommittedRevision] = []
    /// The verdicts on refused change sets, and what their authors sent, for people who look at conflicts.
    package var refusals: [Refusal] = []
    /// The last exchange with each device that had one.
    package var exchanges: [String: Exchange] = [:]
    /// The ids from which the next ones are sought, by the place of the table: the server has assigned lower ones.
    package var nextIDs: [Int: Int64] = [:]
    /// The zone's state afterwards.
    package let zone: ZoneState
    /// The time of the commit by the server's clock, in milliseconds since 1970.
    let committed: Int64

    /// Makes an empty commit.
    package init(zone: ZoneState, at committed: Int64) {
        self.zone = zone
        self.committed = committed
    }
}

/// A revision to store.
package struct CommittedRevision {
    /// The change of a record.
    package struct Entry {
        /// The record.
        package let name: RecordID
        /// The kind of change.
        package let operation: Operation
        /// The places of the columns that an update changed.
        package let columns: [Int]
        /// The row before; nil for a creation.
        package let before: [Value]?
        /// Whether the log may lack values that the record had before.
        package let mayBeUnlogged: Bool
    }

    /// The revision.
    package let revision: Int64
    /// The change set; nil for the changes of other programs.
    package let envelope: SyncRequest.Envelope?
    /// The author and time.
    package let stamp: Stamp
    /// The changes.
    package var entries: [Entry]
    /// The text that devices get, in pieces of some 64 KiB.
    package let text: [String]
    /// The hash of the history up to this revision.
    package let chain: String
    /// The fingerprint of the rows at this revision, if that of the previous one is known.
    package let fingerprint: Fingerprint?
    /// The change set with only the ids of its new records, JSON.
    package let ids: String
    /// The whole author's copy; only for a change set with overruled values.
    package let authorsCopy: String?
    /// Whether it was committed as sent, so that its author only needs ``ids``.
    package let isAsSent: Bool
    /// The permanent ids of its new records.
    package let permanentIDs: [(name: TemporaryName, id: Int64)]
    /// The overruled values of other devices: a JSON array of records each.
    package let notes: [(device: String, records: String)]
}

/// The verdict on a refused change set.
package struct Refusal: Sendable {
    /// The change set.
    package let envelope: SyncRequest.Envelope
    /// The device that sent it.
    package let device: String?
    /// The device's revision.
    package let base: Int64
    /// The answer that a retry gets again, JSON.
    package let text: String
    /// The records as the author sent them, JSON; nil if they are too long to be kept for people.
    package let sent: String?
}
