/// How far a new device is with the zone's rows: the fraction only grows, and is 1 when the app sees them.
public struct DownloadProgress: Hashable, Sendable {
    /// The stage of the first download.
    public enum Stage: Hashable, Sendable {
        /// No byte has arrived.
        case waiting
        /// The zone's rows arrive, compressed; `total` is nil while the server has not said how many bytes come.
        case downloading(bytes: Int64, total: Int64?)
        /// The device writes the records into its tables, which show them at the end.
        case applying(records: Int, total: Int)
        /// The tables have the zone's rows.
        case finished
    }

    /// The stage.
    public let stage: Stage
    /// The part of the work that is done, from 0 to 1.
    public let fraction: Double
    static let waiting = DownloadProgress(stage: .waiting, fraction: 0)
    static let finished = DownloadProgress(stage: .finished, fraction: 1)
}
