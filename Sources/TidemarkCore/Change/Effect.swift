/// What a commit did to a record, as capture triggers saw it.
package struct Effect: Sendable {
    /// The place of the table in ``SyncSchema/tables``.
    package let table: Int
    /// The key in canonical JSON.
    package let key: String
    /// The values of all columns before, in the order of ``SyncedTable/columns``; nil if the record did not exist.
    package let before: [Value]?
    /// The values of all columns afterwards; nil if the record does not exist any more.
    package let after: [Value]?

    /// Creates an effect.
    package init(table: Int, key: String, before: [Value]?, after: [Value]?) {
        self.table = table
        self.key = key
        self.before = before
        self.after = after
    }

    /// The kind of change.
    package var operation: Operation { before == nil ? .create : after == nil ? .delete : .update }
}

extension Value {
    /// Whether two values have the same type and bytes.
    ///
    /// Unlike `==`, it does not take 0.0 for -0.0, nor one text for another that Unicode calls equivalent.
    package func isSame(as other: Value) -> Bool {
        switch (self, other) {
        case (.real(let one), .real(let two)): one.bitPattern == two.bitPattern
        case (.text(let one), .text(let two)): one.utf8.elementsEqual(two.utf8)
        default: self == other
        }
    }
}
