import Tidemark
import TidemarkCore

/// The ids that records get in one sync, followed from their first id to the last.
struct NewNumbers {
    /// The new records that got the permanent id for a temporary one.
    private(set) var assigned = 0
    private var moves: [String: [Int64: Int64]] = [:]

    /// Adds an event's ids: the former id and the new one.
    mutating func add(_ ids: [Int64: Int64], in table: String) {
        for (former, new) in ids {
            let first = moves[table]?.first { $0.value == former }?.key
            guard first != nil || !TemporaryID.isTemporary(former) else {
                assigned += 1
                continue
            }
            moves[table, default: [:]][first ?? former] = new
        }
    }

    /// The records whose number has changed, for people; a temporary id gives way to a permanent one.
    var changes: [String] {
        moves.sorted { $0.key < $1.key }.flatMap { table, ids in
            ids.sorted { $0.key < $1.key }.map { former, new in
                TemporaryID.isTemporary(new)
                    ? "\(table) \(former) -> a new one at the next sync" : "\(table) \(former) -> \(new)"
            }
        }
    }
}
