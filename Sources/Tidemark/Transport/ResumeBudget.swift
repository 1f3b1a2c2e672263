/// Bounds the connections of one download.
///
/// A download may use five connections, and one more for each received MiB. So it continues while it makes progress,
/// but stops soon if the server sends little at a time or another file each time. After a connection without any data
/// it stops, because the network is gone; the session decides when to retry.
struct ResumeBudget {
    private static let connectionsMax: Int64 = 5
    private static let connectionBytes: Int64 = 1 << 20
    private var connections: Int64 = 0

    /// Records a broken connection that brought `bytes` of the file's `total` so far; returns whether to connect again.
    mutating func allowsAnother(afterReceiving bytes: Int64, total: Int64) -> Bool {
        connections += 1
        return bytes > 0 && connections < Self.connectionsMax + total / Self.connectionBytes
    }
}
