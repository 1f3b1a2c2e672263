/// A reference to a record that does not exist.
package struct BrokenReference: Hashable, Sendable {
    /// The child's table.
    package let table: String
    /// The child's key in canonical JSON.
    package let key: String
    /// The first column of the reference.
    package let column: String
    package let parent: String
    /// The referenced key or unique values in canonical JSON.
    package let parentKey: String
    /// Whether `parentKey` is the parent's primary key.
    package let isToKey: Bool

    package init(table: String, key: String, column: String, parent: String, parentKey: String, isToKey: Bool) {
        self.table = table
        self.key = key
        self.column = column
        self.parent = parent
        self.parentKey = parentKey
        self.isToKey = isToKey
    }
}
