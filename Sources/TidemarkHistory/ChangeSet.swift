/// A change set in a device's outbox.
package struct OutboxSet: Sendable, Equatable {
    /// Its 128 random bits, as a UUID in lower case.
    package let id: String
    /// The change sets that it names in `after`.
    package let after: [String]
    /// Its changes, one for each record.
    package let changes: [RecordChange]
    /// The JSON that is sent, once it is frozen.
    package let wire: String?
    /// The time of its edit by the device's hybrid clock; 0 if no policy needs it.
    package let time: Int64

    /// Makes a waiting change set.
    package init(id: String, after: [String] = [], changes: [RecordChange], wire: String? = nil, time: Int64 = 0) {
        self.id = id
        self.after = after
        self.changes = changes
        self.wire = wire
        self.time = time
    }
}

/// A change set in a device's conflict inbox, or overruled values.
package struct ParkedSet: Sendable, Equatable {
    /// One of its records.
    package struct Item: Sendable, Equatable {
        /// The record, with the key of the device's tables.
        package let record: RecordID
        /// The operation of the change set; nil for a record that only stands in the way.
        package let operation: RecordChange.Operation?
        /// The confirmed row at the time of the edit, without the key's columns; nil: none.
        package let base: Cells?
        /// The columns that it wanted to set.
        package let mine: Cells?
        /// The server's row, without the key's columns; nil: none.
        package let theirs: Cells?

        /// Makes an item.
        package init(
            _ record: RecordID, _ operation: RecordChange.Operation?, base: Cells? = nil, mine: Cells? = nil,
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
    package let id: String
    /// Its records, and the records that its reasons name.
    package let items: [Item]
    /// The reasons of its refusal, as JSON.
    package let reasons: String
    /// Whether the entry only keeps overruled values.
    ///
    /// Then `mine` has the values that lost by the policy of their columns.
    package let isOverruled: Bool

    /// Makes a parked change set.
    package init(id: String, items: [Item], reasons: String = "[]", isOverruled: Bool = false) {
        self.id = id
        self.items = items
        self.reasons = reasons
        self.isOverruled = isOverruled
    }
}

/// The permanent id that a temporary one became on a device.
package struct IdentityPair: Sendable, Hashable {
    /// The table of the record.
    package let table: String
    /// The temporary id as the device's tables held it.
    package let temporary: Int64
    /// The id that the server gave.
    package let permanent: Int64

    /// Makes a pair.
    package init(_ table: String, temporary: Int64, permanent: Int64) {
        self.table = table
        self.temporary = temporary
        self.permanent = permanent
    }
}
