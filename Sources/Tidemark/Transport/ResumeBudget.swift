/// How often the connection of one download is made again: a value.
///
/// Five connections may be made anyhow, and one more for every MiB that has arrived: who gets on
/// may go on, and a server that sends little at a time, or another file each time, is left alone
/// soon. A connection that brought nothing is the last one: the network is gone, and when to try
/// again is for the session to say.
struct ResumeBudget {
    private static let connectionsMax: Int64 = 5
    private static let connectionBytes: Int64 = 1 << 20

    /// The connections that were made.
    private var connections: Int64 = 0

    /// Notes a connection that was cut, and says whether another one may be made.
    ///
    /// - Parameters:
    ///   - brought: The bytes that came over it.
    ///   - received: The bytes of the file that are there by now.
    /// - Returns: Whether to connect once more.
    mutating func allowsAnother(afterBringing brought: Int64, received: Int64) -> Bool {
        connections += 1
        return brought > 0 && connections < Self.connectionsMax + received / Self.connectionBytes
    }
}
