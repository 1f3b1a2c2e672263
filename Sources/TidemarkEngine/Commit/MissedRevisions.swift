/// A range of revisions to read from the log for a device that is behind.
package struct MissedRevisions: Hashable, Sendable {
    /// The device's revision: the range begins after it.
    package let after: Int64
    package var through: Int64
    /// The most change sets, at least one.
    package let limit: Int
    /// The most bytes of change sets.
    package let bytesMax: Int
    /// Whether the first change set is returned even if it exceeds the byte limit.
    package var bringsFirst = true
    /// The device that receives its own change sets as author's copies; nil: all are as other devices receive them.
    package var device: String?
}

/// An entry of a zone's log is missing or altered, by a failing disk or by another program.
///
/// The rows are not affected. The store removes the log up to this entry, as compaction does, and
/// answers the request again. Devices behind it take a snapshot.
package struct DamagedLog: Error, Hashable {
    package let revision: Int64

    package init(revision: Int64) { self.revision = revision }

    /// The log message for the operator.
    package var warning: String {
        """
        the log's entry of revision \(revision) is damaged; the rows are not. The log up to there \
        was removed, so devices that are behind it take a snapshot
        """
    }
}
