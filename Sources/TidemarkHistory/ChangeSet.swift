/// A change set as it lies in a device's outbox.
public struct OutboxSet: Sendable, Equatable {
    /// Its 128 random bits, as a UUID in lower case.
    public let id: String
    /// The change sets that it names in `after`.
    public let after: [String]
    /// What it does.
    public let changes: [RecordChange]
    /// The JSON that is sent, once it is frozen.
    public let wire: String?
    /// When it was made, by the device's hybrid clock; 0: no policy asks.
    public let time: Int64

    /// Makes a waiting change set.
    public init(id: String, after: [String] = [], changes: [RecordChange], wire: String? = nil, time: Int64 = 0) {
        self.id = id
        self.after = after
        self.changes = changes
        self.wire = wire
        self.time = time
    }
}

/// A change set in a device's conflict inbox, or values that were overruled.
public struct ParkedSet: Sendable, Equatable {
    /// One of its records.
    public struct Item: Sendable, Equatable {
        /// Which record, with the key of the device's tables.
        public let record: RecordID
        /// What the change set wanted; nil for a record that only stands in the way.
        public let operation: RecordChange.Operation?
        /// The confirmed row at the time of the edit, without the key's columns; nil: none.
        public let base: Cells?
        /// The columns that it wanted to set.
        public let mine: Cells?
        /// The server's row, without the key's columns; nil: none.
        public let theirs: Cells?

        /// Makes an item.
        public init(
            _ record: RecordID,
            _ operation: RecordChange.Operation?,
            base: Cells? = nil,
            mine: Cells? = nil,
            theirs: Cells? = nil
        ) {
            self.record = record
            self.operation = operation
            self.base = base
            self.mine = mine
            self.theirs = theirs
        }
    }

    /// The change set's id.
    public let id: String
    /// Its records, and those that its reasons name.
    public let items: [Item]
    /// Why it was refused, as JSON.
    public let reasons: String
    /// Whether nothing was refused: `mine` has values in whose place others stand, by the policy of
    /// their columns.
    public let isOverruled: Bool

    /// Makes a parked change set.
    public init(id: String, items: [Item], reasons: String = "[]", isOverruled: Bool = false) {
        self.id = id
        self.items = items
        self.reasons = reasons
        self.isOverruled = isOverruled
    }
}

/// The permanent id that a temporary one became on a device.
public struct IdentityPair: Sendable, Hashable {
    /// The table of the record.
    public let table: String
    /// The temporary id as the device's tables held it.
    public let temporary: Int64
    /// The id that the server gave.
    public let permanent: Int64

    /// Makes a pair.
    public init(_ table: String, temporary: Int64, permanent: Int64) {
        self.table = table
        self.temporary = temporary
        self.permanent = permanent
    }
}
