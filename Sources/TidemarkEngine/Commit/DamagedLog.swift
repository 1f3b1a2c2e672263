/// An entry of a zone's log is missing or altered, by a failing disk or by another program.
///
/// The rows are not affected. The store removes the log up to this entry, as compaction does, and
/// answers the request again. Devices behind it take a snapshot.
package struct DamagedLog: Error, Hashable {
    /// The revision of the entry.
    package let revision: Int64

    /// Makes the error.
    package init(revision: Int64) { self.revision = revision }

    /// The log message for the operator.
    package var warning: String {
        """
        the log's entry of revision \(revision) is damaged; the rows are not. The log up to there \
        was removed, so devices that are behind it take a snapshot
        """
    }
}
