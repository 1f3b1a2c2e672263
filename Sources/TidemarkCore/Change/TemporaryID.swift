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
