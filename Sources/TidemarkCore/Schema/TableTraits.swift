/// Properties of a table that its `CREATE TABLE` statement does not show.
///
/// The zone decides them when it first serves the table, and keeps them. They travel with the schema, so
/// that a device agrees.
package struct TableTraits: Hashable, Sendable, Codable {
    /// The columns that identify a record, of a table without a primary key.
    ///
    /// They are unique columns, columns that the operator declares, or the rowid.
    package var key: [String]?
    /// The lowest permanent id of an integer-keyed table, if the table had negative ids from the start.
    ///
    /// Ids below it are temporary, as negative ids are elsewhere.
    package var lowestID: Int64?
    /// The columns of references in which 0 stands for no record.
    package var zeroReferences: [String]?

    /// Creates traits.
    package init(key: [String]? = nil, lowestID: Int64? = nil, zeroReferences: [String]? = nil) {
        self.key = key
        self.lowestID = lowestID
        self.zeroReferences = zeroReferences
    }

    /// Returns the lowest permanent id of a table whose rows have `min` as their lowest; nil if it is not negative.
    package static func lowestID(ofRows min: Int64?) -> Int64? {
        min.flatMap { (TemporaryID.adoptedMin..<0).contains($0) ? $0 : nil }
    }

    /// Whether the table is an ordinary one.
    package var isEmpty: Bool { self == TableTraits() }
}

extension SyncedTable {
    /// The names by which SQLite knows the row number of a table, in the order of preference.
    package static let rowidNames = ["rowid", "_rowid_", "oid"]

    /// Whether the key is the rowid, which no column declares.
    package var hasRowidKey: Bool { keyKind == .integer && traits?.key != nil }

    /// Whether 0 in a reference stands for no record.
    package func allowsZero(in reference: Reference) -> Bool {
        reference.columns.count == 1 && traits?.zeroReferences?.contains(reference.columns[0]) == true
    }

    /// The lowest permanent id of an integer-keyed table.
    package var lowestID: Int64 { traits?.lowestID ?? 0 }
}
