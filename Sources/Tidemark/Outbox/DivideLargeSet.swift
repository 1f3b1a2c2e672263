import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Divides a change set of other programs that is too large to send, between records that do not depend on each other.
///
/// All writes of other programs between two looks are one change set, so an import of a million rows may exceed what a
/// server reads. No transaction of the app's own connection bound them together. The parts stay together as
/// ``DivideRecords`` says, and neighbouring ones are one change set up to a size. Where all depend on each other, new
/// parents go in earlier change sets than their children.
struct DivideLargeSet {
    let db: Database
    let schema: SyncSchema
    let limits: Limits

    struct Size {
        let records: Int
        /// In characters of keys and values; in UTF-8 it has at least as many bytes.
        let characters: Int
    }

    func size(of id: String) throws -> Size? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT count(*), sum(length(key) + coalesce(length(attributes), 0))
                FROM tidemark_outbox WHERE seq = (SELECT seq FROM tidemark_changeset WHERE id = ?)
                """, arguments: [id])
        guard let row, let characters = try row.value(1) as Int? else { return nil }
        return Size(records: try row.value(0), characters: characters)
    }

    /// Whether other programs made a change set.
    static func isOutside(_ id: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_outside WHERE id = ?)", arguments: [id])
            ?? false
    }

    /// Divides a pending change set that the server has not read; false if it has no parts.
    func divide(_ id: String, newID: () -> UUID) throws -> Bool {
        guard try Self.isOutside(id, in: db), let size = try size(of: id),
            let seq = try Int64.fetchOne(db, sql: "SELECT seq FROM tidemark_changeset WHERE id = ?", arguments: [id])
        else { return false }
        var division = DivideRecords(db: db, schema: schema, independent: .all)
        try division.fill(withChangeSet: seq)
        let sizeMax = min(limits.requestBytesMax / 4, size.characters / Self.partsWanted)
        var counts = try division.divide(captureRange: nil, sizeMax: sizeMax)
        if counts.isEmpty {
            division.putsParentsFirst = true
            counts = try division.divide(captureRange: nil, sizeMax: sizeMax)
        }
        guard let count = counts[0] else { return false }
        try division.spread(seq, over: count, newID: newID)
        // The server has not read the frozen text. The first part keeps the id, so no server takes both.
        try db.execute(sql: "UPDATE tidemark_changeset SET wire = NULL WHERE seq = ?", arguments: [seq])
        try WireText.deleteOverflow(where: "seq = ?", arguments: [seq], in: db)
        try Dependencies(db: db, schema: schema).store(from: seq)
        return true
    }

    /// The parts into which a change set of unknown limits is divided at once, at least.
    private static let partsWanted = 8
}

extension TidemarkError {
    func describing(_ size: DivideLargeSet.Size) -> TidemarkError {
        guard code == .tooLarge, place.key == nil else { return self }
        let megabytes = max(1, size.characters / 1_000_000)
        return TidemarkError(
            code,
            "\(message) The change set has \(size.records) records, more than \(megabytes) MB, which stay together.",
            fix: """
                Make the changes in smaller transactions, or have the limit of the server, or of a proxy before it, \
                raised and retry them.
                """, place: place)
    }
}
