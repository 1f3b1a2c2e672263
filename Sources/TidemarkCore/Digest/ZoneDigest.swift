/// The content hashes of a zone: files with equal digests hold the same rows, byte for byte (see `Docs/PROTOCOL.md`).
public struct ZoneDigest: Codable, Hashable, Sendable {
    /// The digest of one table.
    public struct Table: Codable, Hashable, Sendable {
        /// The table's name.
        public let table: String
        /// The number of its rows.
        public let rows: Int
        /// SHA-256 over its rows in key order, lower-case hexadecimal.
        public let hash: String

        /// Creates a table's digest.
        public init(table: String, rows: Int, hash: String) {
            self.table = table
            self.rows = rows
            self.hash = hash
        }
    }

    /// The zone.
    public let zone: String
    /// The revision that the rows are at.
    public let revision: Int64
    /// The tables, by name.
    public let tables: [Table]
    /// SHA-256 over the tables' names and hashes.
    public let hash: String

    /// Creates a zone's digest.
    public init(zone: String, revision: Int64, tables: [Table], hash: String) {
        self.zone = zone
        self.revision = revision
        self.tables = tables
        self.hash = hash
    }
}
