/// A change set on its way into the tables: the positions of its values in a request, and what replaces them.
///
/// The values of a device stay in the request's text until they are bound to a statement or compared, so that a hundred
/// thousand rows need little memory; those of a client without rows are in no text. Permanent ids replace temporary
/// ones, stored spellings of keys replace others, and a policy drops overruled values.
package struct PendingChangeSet {
    /// A change to a record; its key gets permanent ids, and the stored spelling.
    package typealias Record = ChangeSet.Record

    /// The text of the request; it has to stay in memory as long as this value.
    package let reader: JSONReader
    /// The positions of the values; the records are in ``records``.
    package let changeSet: ChangeSet
    /// The changes, in the order in which the change set has them.
    package var records: [Record]
    /// The values that stand in no text, such as permanent ids, by place in ``ChangeSet/values``.
    private var replaced: [Int: Value] = [:]
    /// The places of the values that a policy has overruled: they are not written.
    package private(set) var overruled: Set<Int> = []

    /// Creates a pending change set from what a reader has read.
    package init(_ changeSet: consuming ChangeSet, _ reader: JSONReader) {
        self.reader = reader
        records = changeSet.records
        changeSet.records = []
        self.changeSet = changeSet
    }

    /// Creates a pending change set whose values are in no text, in the order of ``ChangeSet/values``.
    init(_ changeSet: consuming ChangeSet, values: [Value]) {
        self.init(changeSet, .empty)
        replaced = Dictionary(uniqueKeysWithValues: zip(values.indices, values))
    }

    /// The columns that a record sets or adds to, with the places of their values.
    package func columns(of record: Record) -> some Sequence<(place: Int, column: WireNames.Column)> {
        record.values.lazy.filter { !(!overruled.isEmpty && overruled.contains($0)) }.map {
            ($0, changeSet.values[$0].column)
        }
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

    /// Returns what has replaced a value; nil if nothing has.
    package func replacement(at place: Int) -> Value? { replaced[place] }

    /// Replaces a value, such as a reference to a temporary id.
    package mutating func replace(at place: Int, by value: Value) { replaced[place] = value }

    /// Leaves a value out.
    package mutating func overrule(at place: Int) { overruled.insert(place) }
}
