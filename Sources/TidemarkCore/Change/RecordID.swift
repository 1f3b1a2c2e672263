/// Names a record of a zone.
///
/// Two names are equal if their bytes are: Unicode may call the texts of two keys equivalent, a database does not.
package struct RecordID: Hashable, Sendable {
    /// The place of the table in ``SyncSchema/tables``.
    package let table: Int
    /// The key in canonical JSON.
    package let key: String

    /// Creates a name.
    package init(table: Int, key: String) {
        self.table = table
        self.key = key
    }

    /// Whether two names are of one record.
    package static func == (one: RecordID, other: RecordID) -> Bool {
        one.table == other.table && one.key.utf8.elementsEqual(other.key.utf8)
    }

    /// Hashes the bytes of the key.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(table)
        var key = key
        key.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
