package import TidemarkCore

/// The rows and the history of a zone, in a read transaction or in one that writes.
package protocol RowReader: BookDatabase {
    /// The part of the zone's books that has been read.
    var books: BookState { get }

    func tableRows(_ question: TableQuestion) throws -> TableAnswer
}

/// A question about the rows of one table that a filter selects.
package enum TableQuestion: Hashable, Sendable {
    case page(RowQuery)
    /// Their number and fingerprint, in ranges of keys: of ranges that have rows, in their order; or one sum a row, in
    /// no order within a range.
    case sums(FingerprintQuery)
}

/// The answer to a ``TableQuestion``; the other kind of answer is empty.
package struct TableAnswer: Hashable, Sendable {
    package var page = RowPage(rows: [], hasMore: false)
    package var sums: [RowSum] = []

    package init(_ page: RowPage) { self.page = page }
    package init(_ sums: [RowSum]) { self.sums = sums }
}

extension RowReader {
    package func rows(_ query: RowQuery) throws -> RowPage { try tableRows(.page(query)).page }
    package func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] { try tableRows(.sums(query)).sums }
}

/// One zone in a read transaction of a store: all answers are of one revision.
///
/// The seam between the requests of clients without rows and a store. A store absorbs the writes of other
/// programs before it opens one. Reads are bounded in time: a store ends a statement that runs for longer
/// than ``ZoneReaderLimits/millisecondsMax`` with ``TidemarkCore/ErrorCode/queryTooCostly``.
package protocol ZoneReader: RowReader {
    /// The access with which a client asks, as the gate has decided it.
    var access: ZoneAccess { get }

    /// Counts the rows that a filter selects, up to `max` + 1.
    ///
    /// With `estimates`, the number of more rows is estimated with few reads.
    func count(_ table: SyncedTable, where filter: RowFilter?, max: Int, estimates: Bool) throws -> RowEstimate
}

extension ZoneReader {
    package var state: ZoneState { books.state }

    package var log: LogReader { LogReader(self, for: access) }

    /// Counts the rows that a filter selects, up to `max` + 1.
    func count(_ table: SyncedTable, where filter: RowFilter?, max: Int) throws -> Int {
        switch try count(table, where: filter, max: max, estimates: false) {
        case .about(let count), .atLeast(let count): count
        }
    }

    /// Counts a table's rows up to some thousand, and estimates more.
    package func estimate(_ table: SyncedTable) throws -> RowEstimate {
        try count(table, where: nil, max: 10_000, estimates: true)
    }
}

/// The number of a table's rows, as far as a store knows it without counting them all.
package enum RowEstimate: Hashable, Sendable {
    /// The number, or close to it.
    case about(Int)
    /// More than the store counts.
    case atLeast(Int)

    package var json: String {
        switch self {
        case .about(let count): #"{"estimate":\#(count)}"#
        case .atLeast(let count): #"{"atLeast":\#(count)}"#
        }
    }
}

/// A place in the log.
package struct LogPosition: Hashable, Sendable, Codable, Comparable {
    package let revision: Int64
    /// The table; empty before the revision's first entry.
    package let table: String
    /// The key in canonical JSON.
    package let key: String

    /// Creates a position; without a table it is the end of the revision.
    package init(revision: Int64, table: String = "\u{10FFFF}", key: String = "") {
        self.revision = revision
        self.table = table
        self.key = key
    }

    /// Orders by revision, then by the bytes of table and key.
    package static func < (left: LogPosition, right: LogPosition) -> Bool {
        if left.revision != right.revision { return left.revision < right.revision }
        if left.table != right.table { return left.table.utf8.lexicographicallyPrecedes(right.table.utf8) }
        return left.key.utf8.lexicographicallyPrecedes(right.key.utf8)
    }
}

/// A record's change in a revision, as the log has it.
package struct LogRecord: Hashable, Sendable {
    package let revision: Int64
    package let table: String
    /// The key in canonical JSON.
    package let key: String
    /// The change.
    package let operation: Operation
    /// The changed columns of an update.
    package let columns: [String]
    /// The values that the change replaced, as a JSON object: of an update its columns, of a deletion all.
    ///
    /// Values above 1 MiB are not in it; nil if it has none.
    package let replaced: String?
    /// Whether compaction has removed other changes of the record near this one.
    package let isMerged: Bool

    /// The values of a JSON object whose members stand for columns, by column in canonical JSON.
    static func values(_ object: String?) -> [String: String] {
        let members = object.flatMap { JSONParts.members(of: $0) } ?? []
        return Dictionary(members.map { (WireName.name(of: $0.name), $0.value) }) { first, _ in first }
    }
}

/// A revision: who committed what, and when.
package struct RevisionRecord: Hashable, Sendable {
    /// The numbers of changed records of one table.
    package struct Counts: Hashable, Sendable {
        package var created = 0
        package var updated = 0
        package var deleted = 0
    }

    /// Who made a revision.
    package enum Source: String, CaseIterable, Sendable {
        case device
        /// A client without rows, such as one of `POST /tables/{table}`.
        case client
        /// A program that wrote into the database itself.
        case program
    }

    package let revision: Int64
    /// Who made it.
    package let source: Source
    /// The device; nil for a client without rows and for another program.
    package let device: String?
    package let user: String?
    /// The time of the commit by the server's clock, in milliseconds since 1970; nil if unknown.
    package let committed: Int64?
    /// The changed records, by table.
    package let tables: [String: Counts]

    /// Creates a revision; only a change set that somebody sent has an id.
    package init(
        revision: Int64, hasID: Bool, device: String?, user: String?, committed: Int64?, tables: [String: Counts]
    ) {
        self.revision = revision
        source = device != nil ? .device : hasID ? .client : .program
        self.device = device
        self.user = user
        self.committed = committed
        self.tables = tables
    }
}

/// A device as the server knows it.
package struct DeviceRecord: Hashable, Sendable {
    /// The device's id.
    package let device: String
    /// The name that its user gave it.
    package let name: String?
    package let user: String?
    package let revision: Int64
    /// The time of its first request, in milliseconds since 1970.
    package let firstContact: Int64?
    /// The time of its last request.
    package let lastContact: Int64?
    /// Whether the server was told to forget it.
    package let isForgotten: Bool

    /// Whether a contact can be this device's: it is not forgotten, and not another user's.
    package func admits(_ contact: DeviceContact) -> Bool {
        !isForgotten && (user == nil || contact.user == nil || user == contact.user)
    }
}

/// A refused change set.
package struct RefusalRecord: Hashable, Sendable {
    /// The number, which grows with each refusal of the zone.
    package let number: Int64
    /// The change set's id.
    package let id: String
    package let device: String?
    /// The time of the verdict, in milliseconds since 1970.
    package let decided: Int64
    /// The revision that its author had seen.
    package let base: Int64
    /// The answer to the device, JSON: its reasons and the truth.
    package let body: String
    /// The records as the author sent them, JSON; nil if they were too many.
    package let sent: String?
}

/// The bounds of one read.
package enum ZoneReaderLimits {
    /// The longest time of a statement, in milliseconds.
    package static let millisecondsMax = 2_000
    /// The most bytes of one answer's rows.
    package static let bytesMax = 1 << 20
    /// The most bytes of the rows of a whole table.
    package static let wholeBytesMax = 16 << 20
    /// The largest exact count.
    package static let countMax = 100_000
    /// The most related records of a page.
    package static let relatedMax = 10_000
    /// The most log entries that one page examines.
    package static let entriesMax = 2_000
}

/// A question about a zone, which a store answers in a read transaction.
///
/// The store runs it on its own thread. It may run it again if another program has changed the tables
/// meanwhile, so a question has no effect.
public struct ZoneQuestion<Answer: Sendable>: Sendable {
    /// Answers from a read transaction.
    package let ask: @Sendable (any ZoneReader) throws -> Answer

    /// Creates a question.
    package init(_ ask: @escaping @Sendable (any ZoneReader) throws -> Answer) { self.ask = ask }
}

extension TidemarkError {
    /// The error about a query that took too long, of a table for which an index would help.
    package static func queryTooCostly(_ table: SyncedTable? = nil, index: String? = nil) -> TidemarkError {
        TidemarkError(
            .queryTooCostly, "The query ran for longer than \(ZoneReaderLimits.millisecondsMax / 1_000) s.",
            fix: index.map { "Ask the operator for an index: \($0)" } ?? "Ask for less at once.",
            place: .init(table: table?.name))
    }
}
