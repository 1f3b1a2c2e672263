/// A change set on its way into the tables: the positions of its values in a request, and what replaces them.
///
/// The values stay in the request's text until they are bound to a statement or compared, so that a hundred thousand
/// rows need little memory. Permanent ids replace temporary ones, stored spellings of keys replace others, and a policy
/// drops overruled values.
package struct PendingChangeSet {
    /// A change to a record.
    package struct Record: Sendable {
        /// The place of its table in ``SyncSchema/tables``.
        package let table: Int
        /// The kind of change.
        package var operation: Operation
        /// The key in canonical JSON, with permanent ids and in the stored spelling as far as they are known.
        package var key: String
        /// The key as its author knows it, if the server has renamed it.
        package var authorsKey: String?
        /// The revision on which the change is based, if the record has one of its own.
        package let base: Int64?
        /// The places of its values in ``ChangeSet/values``.
        package let values: Range<Int>
    }

    /// The text of the request; it has to stay in memory as long as this value.
    package let reader: JSONReader
    /// The positions.
    package let changeSet: ChangeSet
    /// The changes, in the order in which the change set has them.
    package var records: [Record]
    /// The values that permanent ids have replaced, by place in ``ChangeSet/values``.
    private var replaced: [Int: Value] = [:]
    /// The places of the values that a policy has overruled: they are not written.
    private(set) var overruled: Set<Int> = []

    /// Creates a pending change set from what a reader has read.
    package init(_ changeSet: ChangeSet, _ reader: JSONReader) {
        self.changeSet = changeSet
        self.reader = reader
        records = changeSet.records.map {
            Record(
                table: $0.table,
                operation: $0.operation,
                key: $0.key,
                authorsKey: $0.oldKey,
                base: $0.base,
                values: $0.values
            )
        }
    }

    /// The columns that a record sets or adds to, with the places of their values.
    package func columns(of record: Record) -> some Sequence<(place: Int, column: WireNames.Column)> {
        record.values.lazy.filter { !overruled.contains($0) }.map { ($0, changeSet.values[$0].column) }
    }

    /// Returns the number that a change adds to its column; nil for a value.
    package func delta(at place: Int) -> Int64? { changeSet.values[place].delta }

    /// Returns a value; only for a place without a delta.
    ///
    /// - Throws: ``InvalidValue``; the reader of the request has refused such values.
    package func value(at place: Int) throws(InvalidValue) -> Value {
        if let value = replaced[place] { return value }
        return try reader.value(of: changeSet.values[place].cell)
    }

    /// Returns the position of a value in the text; nil if another one has replaced it.
    package func cell(at place: Int) -> Cell? {
        replaced.isEmpty || replaced[place] == nil ? changeSet.values[place].cell : nil
    }

    /// Replaces a value, such as a reference to a temporary id.
    package mutating func replace(at place: Int, by value: Value) { replaced[place] = value }

    /// Leaves a value out.
    package mutating func overrule(at place: Int) { overruled.insert(place) }
}
