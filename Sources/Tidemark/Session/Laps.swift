import Foundation
import GRDB
import TidemarkCore

/// The laps of a device's requests; they expose files that were copied or restored from a backup.
///
/// Each request names a random lap of its own, `next`, and every lap that the server may have stored:
/// `last`, the lap of the last applied answer, and `open`, the laps of unanswered requests. The server
/// stores the latest lap. If it is none of these, the file or the server's database is an older copy.
/// So is the server's database if it knows no lap although it should.
///
/// A retry of the same change sets has the same lap. A request with more change sets has a new lap, so
/// that the retry of a copied file cannot add anything.
///
/// A settled device has no unanswered request and nothing to send. Its request has no lap, so the server need not write
/// anything. The server still notices any revision by this device that the file lacks.
struct Laps: Hashable, Sendable {
    /// The lap of the last applied answer.
    private var last: String?
    /// The laps of requests since then, oldest first.
    private var open: [String]
    /// How many requests with different change sets may go unanswered.
    static let openMax = 16

    struct Lap {
        let last: String?
        let open: [String]
        let next: String

        var json: String {
            let last = last.map { JSONText.quote($0) } ?? "null"
            return #"{"last":\#(last),"open":\#(Laps.list(open)),"next":"\#(next)"}"#
        }
    }

    /// Reads the laps as the file stores them: `open` is an array of strings.
    init(last: String?, open: String) {
        self.last = last
        self.open = JSONParts.elements(of: open)?.map(JSONText.unquote) ?? []
    }

    /// Whether a request may contain change sets that no earlier one had.
    var hasRoom: Bool { open.count < Self.openMax }
    /// Whether the device has applied the answers to all requests with a lap.
    var isSettled: Bool { open.isEmpty }

    /// Returns whether the answer to a request is still missing.
    func isOpen(_ lap: String) -> Bool { open.contains(lap) }

    /// Begins a request; with `isRetry`, it contains nothing that the last unanswered request did not.
    mutating func begin(isRetry: Bool, newID: () -> UUID, in db: Database) throws -> Lap {
        if !isRetry || open.isEmpty {
            open.append(newID().uuidString.lowercased())
            try write(db)
        }
        return Lap(last: last, open: open.dropLast(), next: open[open.count - 1])
    }

    /// Records that the device applied an answer, in the same transaction.
    mutating func finish(_ lap: String, in db: Database) throws {
        guard let index = open.firstIndex(of: lap) else { return }
        last = lap
        open.removeFirst(index + 1)
        try write(db)
    }

    /// Gives the file a new identity, which no other file has and no server knows.
    static func renew(newID: () -> UUID, in db: Database) throws {
        try db.execute(
            sql: "UPDATE tidemark_device SET device = ?, overruled = 0, lap = NULL, open_laps = '[]'",
            arguments: [newID().uuidString.lowercased()])
        if planted(PlantedBug.keepsLentIDsOfCopy) { return }
        try DrawnIDs.startAnew(newID: newID, in: db)
    }

    private func write(_ db: Database) throws {
        try db.execute(
            cached: "UPDATE tidemark_device SET lap = ?, open_laps = ?", arguments: [last, Self.list(open)])
    }

    private static func list(_ laps: [String]) -> String { JSONText.array(laps.map { JSONText.quote($0) }) }
}
