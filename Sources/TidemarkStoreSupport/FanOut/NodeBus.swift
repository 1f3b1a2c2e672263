package import TidemarkCore

/// Carries news of commits between the nodes of one database.
///
/// Messages are hints that may be late or lost; a timer also checks zones that have listeners. Safe
/// to use from any task.
package protocol NodeBus: Sendable {
    /// Starts the bus; it calls `hear` on its thread, and `hear` must not wait.
    func start(_ hear: @escaping @Sendable (NodeNews) -> Void)

    /// Sends a zone's revision to the other nodes soon; returns at once.
    func tell(_ revision: ZoneRevision)

    /// Ends the thread.
    func stop()
}

/// A message from another node or from the database.
package enum NodeNews: Hashable, Sendable {
    /// A node has committed a revision.
    case committed(ZoneRevision)
    /// Another program has written into a zone's tables; no revision has the change yet.
    case outside(zone: String)

    /// Reads a message; nil when it is not one of Tidemark.
    package init?(_ message: String) {
        let parts = message.split(separator: " ", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { return nil }
        switch parts[0] {
        case "outside": self = .outside(zone: parts[1])
        case "commit":
            let fields = parts[1].split(separator: " ", maxSplits: 2).map(String.init)
            guard fields.count == 3, let revision = Int64(fields[1]) else { return nil }
            self = .committed(ZoneRevision(zone: fields[2], epoch: fields[0], revision: revision))
        default: return nil
        }
    }

    /// The message for a committed revision.
    package static func message(_ revision: ZoneRevision) -> String {
        "commit \(revision.epoch) \(revision.revision) \(revision.zone)"
    }
}
