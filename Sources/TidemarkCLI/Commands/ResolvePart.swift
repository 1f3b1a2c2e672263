import Tidemark
import TidemarkCore

/// A decision about a conflict, and about the records in it that get the other one.
struct ResolvePart {
    let conflict: Conflict
    /// The records that are written again, unless they are among ``merged``.
    private(set) var written: [Conflict.Record]
    /// The records for which the server's version stays.
    private(set) var left: [Conflict.Record]
    /// The records that are written with other values.
    private let merged: [MergedRecord]

    /// Divides a conflict's records between what `accepts` says and the opposite: with `only` the
    /// named ones get the decision and all others the opposite, with `except` the other way round.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the conflict has no such record.
    init(_ conflict: Conflict, accepts: Bool, only: [String] = [], except: [String] = [], merged: [MergedRecord] = [])
        throws
    {
        self.conflict = conflict
        self.merged = merged
        let records = conflict.records.filter { $0.operation != "unchanged" }
        let named = try Set((only + except).map { try Self.record($0, among: records) })
        let decided = records.filter { only.isEmpty ? !named.contains($0) : named.contains($0) }
        let others = records.filter { only.isEmpty ? named.contains($0) : !named.contains($0) }
        (written, left) = accepts ? (others, decided) : (decided, others)
    }

    /// Whether a record is written again as it was: not left out, nor given other values.
    func writes(_ record: Conflict.Record) -> Bool {
        written.contains(record) && !merged.contains { $0.table == record.table && $0.key == record.key }
    }

    /// Leaves more records as the server has them.
    mutating func leave(_ records: [Conflict.Record]) {
        let names = Set(records)
        left += written.filter(names.contains)
        written.removeAll(where: names.contains)
    }

    /// What the library is asked for.
    var resolution: Resolution {
        if written.isEmpty, merged.isEmpty { return .accept }
        if left.isEmpty, merged.isEmpty { return .retry }
        return .merge(merged + left.map { MergedRecord(table: $0.table, key: $0.key, columns: nil) })
    }

    /// What becomes of the records, in words.
    var text: String {
        let server = "the server's rows stay"
        if written.isEmpty, merged.isEmpty { return "accepted: \(server)" }
        guard !left.isEmpty else { return "your changes are made again; sync to send them" }
        let again = Counted.text(written.count, "record is", plural: "records are")
        return "\(again) written again, for \(Counted.number(left.count)) \(server); sync to send them"
    }

    /// The records of a list by table and key, for people: `player 7, player 12 and 3 more`.
    static func names(_ records: [Conflict.Record]) -> String { Counted.list(records.map { "\($0.table) \($0.key)" }) }

    /// The record that `TABLE/KEY` names; a text key may be written without its quotes.
    private static func record(_ name: String, among records: [Conflict.Record]) throws -> Conflict.Record {
        let found = records.first { record in name == "\(record.table)/\(record.key)" || "\"\(name)\"" == quoted(record)
        }
        guard let found else {
            throw TidemarkError(
                .invalidArgument,
                "The conflict has no record \(name).",
                fix: "Write TABLE/KEY as `tidemark device conflicts FILE --all` lists them, for instance player/7."
            )
        }
        return found
    }

    /// The table and a text key within one pair of quotes.
    private static func quoted(_ record: Conflict.Record) -> String? {
        guard record.key.hasPrefix("\"") else { return nil }
        return "\"\(record.table)/\(record.key.dropFirst())"
    }
}
