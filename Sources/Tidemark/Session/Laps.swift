import Foundation
import GRDB

/// A device's exchanges with its server, by which a file that was copied, or came back from a
/// backup, is told from the one that went on.
///
/// Each request names a random lap of its own, `next`, and all that the server may have seen last:
/// `last`, the lap of the last answer taken in, and `open`, those of requests without an answer.
/// The server keeps the one that it saw last. When it is none of these, or when it should know one
/// and does not, the file or the server's is an older copy.
///
/// A retry of the same change sets has the same lap. One that adds change sets has a new one, so
/// that nobody else's retry can bring anything new.
///
/// A device of which everything has been answered only asks what is new. Such a request has no lap,
/// so that the server need not write anything down: it says that the device is settled, and the
/// server would notice any revision of this device's that the file does not have.
struct Laps: Hashable, Sendable {
    /// The lap of the last answer taken in.
    private var confirmed: String?
    /// The laps of requests since then, oldest first.
    private var open: [String]

    /// How many requests with different change sets may go unanswered.
    static let openMax = 16

    /// What stands in a request.
    struct Lap {
        let last: String?
        let open: [String]
        let next: String

        var json: String {
            let list = open.map { "\"\($0)\"" }.joined(separator: ",")
            let last = last.map { "\"\($0)\"" } ?? "null"
            return #"{"last":\#(last),"open":[\#(list)],"next":"\#(next)"}"#
        }
    }

    /// Reads the laps of a device's file.
    init(_ db: Database) throws {
        confirmed = try String.fetchOne(db.cachedStatement(sql: "SELECT lap FROM tidemark_device"))
        open = try String.fetchAll(
            db.cachedStatement(sql: "SELECT j.value FROM tidemark_device AS d, json_each(d.open_laps) AS j")
        )
    }

    /// Whether a request may bring change sets that no earlier one had.
    var hasRoom: Bool { open.count < Self.openMax }

    /// Whether the answers to all requests with a lap have been taken in.
    var isSettled: Bool { open.isEmpty }

    /// Whether the answer to a request is still to be taken in.
    func isOpen(_ lap: String) -> Bool { open.contains(lap) }

    /// Begins a request; with `isRetry` it brings nothing that the last one without an answer did
    /// not.
    mutating func begin(isRetry: Bool, newID: () -> UUID, in db: Database) throws -> Lap {
        if !isRetry || open.isEmpty {
            open.append(newID().uuidString.lowercased())
            try write(db)
        }
        return Lap(last: confirmed, open: open.dropLast(), next: open[open.count - 1])
    }

    /// Notes that an answer was taken in, in its transaction.
    mutating func finish(_ lap: String, in db: Database) throws {
        guard let index = open.firstIndex(of: lap) else { return }
        confirmed = lap
        open.removeFirst(index + 1)
        try write(db)
    }

    /// Gives the file an identity that no other file has and no server knows.
    static func renew(device: UUID, in db: Database) throws {
        try db.execute(
            sql: "UPDATE tidemark_device SET device = ?, overruled = 0, lap = NULL, open_laps = '[]'",
            arguments: [device.uuidString.lowercased()]
        )
    }

    private func write(_ db: Database) throws {
        let list = "[" + open.map { "\"\($0)\"" }.joined(separator: ",") + "]"
        try db.cachedStatement(sql: "UPDATE tidemark_device SET lap = ?, open_laps = ?").execute(arguments: [
            confirmed, list,
        ])
    }
}
