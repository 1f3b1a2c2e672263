package import TidemarkCore

/// How the nodes of one database tell each other what they have committed.
///
/// What is told is a hint that may be late or lost; who listens to a zone looks at it now and then.
/// Safe to use from any task.
package protocol NodeBus: Sendable {
    /// Begins to listen; `hear` is called on the bus's thread and must not wait.
    func start(_ hear: @escaping @Sendable (NodeNews) -> Void)

    /// Tells the other nodes that a zone has reached a revision, soon; returns at once.
    func tell(_ revision: ZoneRevision)

    /// Ends its thread.
    func stop()
}

/// What nodes hear from each other and from the database.
package enum NodeNews: Hashable, Sendable {
    /// A node has committed.
    case committed(ZoneRevision)
    /// Another program has committed in a zone's tables, which is in no revision yet.
    case outside(zone: String)

    /// Reads a message; nil when it is none of ours.
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

    /// The message that tells of a commit.
    package static func message(_ revision: ZoneRevision) -> String {
        "commit \(revision.epoch) \(revision.revision) \(revision.zone)"
    }
}
