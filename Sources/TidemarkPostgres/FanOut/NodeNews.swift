import TidemarkCore

/// A notification of another node or of another program.
enum NodeNews: Hashable, Sendable {
    case committed(ZoneRevision)
    /// Another program has written into a zone's tables; no revision has the change yet.
    case outside(zone: String)

    /// Reads a notification; nil when it is not one of Tidemark.
    init?(_ message: String) {
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

    /// The notification of a committed revision.
    static func message(_ revision: ZoneRevision) -> String {
        "commit \(revision.epoch) \(revision.revision) \(revision.zone)"
    }
}
