import Tidemark
import TidemarkCore

/// The decision on each record of a conflict.
struct ResolvePart {
    let conflict: Conflict
    /// The records to write again, unless they are among ``mergedRecords``.
    private(set) var retriedRecords: [Conflict.Record]
    /// The records that keep the server's version.
    private(set) var acceptedRecords: [Conflict.Record]
    /// The records that another device deleted, and that this creates again.
    var revivedRecords: [Conflict.Record] = []
    /// The records to write with other values.
    private let mergedRecords: [MergedRecord]

    /// Divides the records: those of `only`, or all except `except`, get the decision `accepts`, others its opposite.
    init(
        _ conflict: Conflict, accepts: Bool, only: [String] = [], except: [String] = [],
        mergedRecords: [MergedRecord] = []
    ) throws {
        self.conflict = conflict
        self.mergedRecords = mergedRecords
        let records = conflict.records.filter { $0.operation != "unchanged" }
        let namedRecords = try Set((only + except).map { try Self.record($0, among: records) })
        let matching = records.filter { only.isEmpty ? !namedRecords.contains($0) : namedRecords.contains($0) }
        let others = records.filter { only.isEmpty ? namedRecords.contains($0) : !namedRecords.contains($0) }
        retriedRecords = accepts ? others : matching
        acceptedRecords = accepts ? matching : others
    }

    /// Whether the resolution writes a record again with its own values.
    func writes(_ record: Conflict.Record) -> Bool {
        retriedRecords.contains(record)
            && !mergedRecords.contains { $0.table == record.table && $0.key == record.key }
    }

    /// Keeps the server's version of more records.
    mutating func leave(_ records: [Conflict.Record]) {
        let names = Set(records)
        acceptedRecords += retriedRecords.filter(names.contains)
        retriedRecords.removeAll(where: names.contains)
    }

    var resolution: Resolution {
        if retriedRecords.isEmpty, mergedRecords.isEmpty { return .accept }
        if acceptedRecords.isEmpty, mergedRecords.isEmpty { return .retry }
        let serverVersions = acceptedRecords.map { MergedRecord(table: $0.table, key: $0.key, columns: nil) }
        return .merge(mergedRecords + serverVersions)
    }

    var text: String {
        let server = "the server's rows stay"
        if retriedRecords.isEmpty, mergedRecords.isEmpty { return "accepted: \(server)" }
        guard !acceptedRecords.isEmpty else { return "your changes are made again; sync to send them" }
        let again = Counted.text(retriedRecords.count, "record is", plural: "records are")
        return "\(again) written again, for \(Counted.number(acceptedRecords.count)) \(server); sync to send them"
    }

    /// The records that are created again, for people.
    var revived: String {
        let count = Counted.text(revivedRecords.count, "record", plural: "records")
        return "\(count) of conflict \(conflict.number): \(Self.names(revivedRecords))"
    }

    /// Lists records by table and key, for people: `player 7, player 12 and 3 more`.
    static func names(_ records: [Conflict.Record]) -> String { Counted.list(records.map { "\($0.table) \($0.key)" }) }

    /// Finds the record of `TABLE/KEY`; a text key may lack its quotes.
    private static func record(_ name: String, among records: [Conflict.Record]) throws -> Conflict.Record {
        let match = records.first { record in
            name == "\(record.table)/\(record.key)" || "\"\(name)\"" == quoted(record)
        }
        guard let match else {
            throw TidemarkError(
                .invalidArgument, "The conflict has no record \(name).",
                fix: "Write TABLE/KEY as `tidemark device conflicts FILE --all` lists them, for instance player/7.")
        }
        return match
    }

    /// Returns the table and a text key within one pair of quotes.
    private static func quoted(_ record: Conflict.Record) -> String? {
        guard record.key.hasPrefix("\"") else { return nil }
        return "\"\(record.table)/\(record.key.dropFirst())"
    }
}
