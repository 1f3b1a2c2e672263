/// An entry of a zone's log is gone, or is not the one that was committed: by a failing disk, or by
/// somebody who wrote into the bookkeeping.
///
/// The rows are not concerned. The store takes the log up to there away, as compaction does, so
/// that devices behind it take a snapshot, and has the request answered again.
public struct DamagedLog: Error, Hashable {
    /// The revision of the entry.
    public let revision: Int64

    /// Makes the error.
    public init(revision: Int64) { self.revision = revision }

    /// What the operator is told.
    public var warning: String {
        """
        the log's entry of revision \(revision) is damaged; the rows are not. The log up to there \
        was taken away, so devices that are behind it take a snapshot
        """
    }
}
