/// A key that a device gives a new record until the server answers with the permanent one.
///
/// Two local forms exist. An app, or a person at the `sqlite3` shell, may write a small negative
/// id. A plain `INSERT` without an id into an `AUTOINCREMENT` table draws from the reserved region,
/// 2^52 and up, that the server never assigns. On the wire both are negative: the reserved `n`
/// travels as `-n`.
public enum TemporaryID {
    /// The first id of the reserved region.
    ///
    /// Below 2^53, so JavaScript readers keep it exact.
    public static let reservedMin: Int64 = 1 << 52
    /// The last id of the reserved region.
    public static let reservedMax: Int64 = (1 << 53) - 1
    /// The highest id that a server assigns.
    public static let permanentMax: Int64 = reservedMin - 1

    /// Whether a local id is temporary.
    public static func isTemporary(_ id: Int64) -> Bool { id < 0 || id >= reservedMin }
}
