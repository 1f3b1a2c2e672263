package import TidemarkCore

/// The answer to a write that is done.
package struct WriteAnswer: Hashable, Sendable {
    /// The kind of change.
    package let operation: Operation
    /// The record's path beneath the zone's, percent-encoded.
    package let location: String
    /// The tag of the record, or of the revision that the write became; nil for a record that is gone.
    package var entityTag: String?
    /// The record, JSON; nil if the client does not want it, or if it is gone.
    package var record: String?

    /// Creates an answer.
    package init(operation: Operation, location: String) {
        self.operation = operation
        self.location = location
    }

    /// The HTTP status.
    package var status: Int {
        guard record != nil else { return 204 }
        return operation == .create ? 201 : 200
    }

    /// The answer as an entry of a batch, JSON.
    package var json: String {
        var members = [("status", "\(status)")]
        if let entityTag { members.append(("etag", JSONText.quote(entityTag))) }
        if operation != .delete { members.append(("location", JSONText.quote(location))) }
        if let record { members.append(("record", record)) }
        return JSONText.object(members)
    }
}
