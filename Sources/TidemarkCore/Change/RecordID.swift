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

/// The key that a device assigns to a new record until the server assigns the permanent one.
///
/// Two local forms exist. An app, or a person at the `sqlite3` shell, may write a small negative
/// id. An `INSERT` without an id into an `AUTOINCREMENT` table takes the next id of the reserved
/// region, 2^52 and up, which the server never assigns. The device sends a reserved id `n` as `-n`.
package enum TemporaryID {
    /// The first id of the reserved region.
    ///
    /// Below 2^53, so JavaScript readers keep it exact.
    package static let reservedMin: Int64 = 1 << 52
    /// The last id of the reserved region.
    package static let reservedMax: Int64 = (1 << 53) - 1
    /// The lowest id that a row may have when its table is first served.
    package static let adoptedMin: Int64 = -(1 << 51)
    /// The highest permanent id.
    package static let permanentMax: Int64 = reservedMin - 1
    /// The highest id that a server assigns; above it are only ids that programs choose.
    ///
    /// So a program that chooses the highest id does not use up the server's ids.
    package static let assignedMax: Int64 = (1 << 51) - 1

    /// Whether a local id is temporary.
    package static func isTemporary(_ id: Int64) -> Bool { id < 0 || id >= reservedMin }
}
