import Crypto

/// A request without the records of its change sets.
package struct SyncRequest: Hashable, Sendable {
    /// One incoming change set, without its rows.
    package struct Envelope: Hashable, Sendable {
        package let index: Int
        /// The id that makes a retry harmless, in lower case; nil in the short form.
        package let id: String?
        /// The ids of the change sets that this one depends on.
        package let after: [String]
        /// SHA-256 of its JSON, in lower-case hexadecimal.
        package let hash: String
        /// The time by its author's hybrid clock; nil when the author has no such clock.
        package let time: Int64?

        package init(index: Int, id: String?, after: [String], hash: String, time: Int64? = nil) {
            self.index = index
            self.id = id
            self.after = after
            self.hash = hash
            self.time = time
        }
    }

    /// The session nonces of a request, by which the server detects two files with one identity.
    package struct Lap: Hashable, Sendable {
        /// The nonce of the last answer that the device applied; nil before the first.
        package let last: String?
        /// The nonces of later requests that got no answer.
        package let open: [String]
        /// The nonce of this request; a retry has the same.
        package let next: String

        package init(last: String?, open: [String], next: String) {
            self.last = last
            self.open = open
            self.next = next
        }

        package func follows(_ serverLast: String?) -> Bool {
            guard let serverLast, !serverLast.isEmpty else { return last == nil }
            return serverLast == next || serverLast == last || open.contains(serverLast)
        }
    }

    /// How much of the sender's own change sets the answer repeats.
    package enum Echo: String, Hashable, Sendable {
        /// The committed rows.
        case all
        /// Only the new ids, if the rows were committed as sent.
        case ids
    }

    /// A device's question about its own change sets before it adopts another history.
    package struct Question: Hashable, Sendable {
        /// Change sets without a verdict on the device; the server returns their verdicts.
        package internal(set) var recall: [String] = []
        /// Change sets with a verdict on the device; the server returns the ids that it knows.
        package internal(set) var known: [String] = []
    }

    /// The device's revision: the base of every record without a base of its own.
    package var maxRevision: Int64
    /// The device's id; nil for an anonymous client.
    package var device: String?
    /// The epoch of the device's history.
    package var epoch: String?
    /// The hash of the device's schema.
    package var schema: String?
    package var limit: Int?
    /// The cursor of overruled values: the number of the last note that the device has applied.
    package var overruled: Int64 = 0
    /// Whether the device has applied the answers to all its change sets.
    package var isSettled = false
    /// Whether the device accepts a delta file in place of many change sets.
    package var takesDelta = false
    /// How much of the change sets the answer repeats; nil: the sender is a client without rows, and gets a verdict.
    package var echo: Echo? = .all
    /// The session nonces, if the device uses them.
    package var lap: Lap?
    /// The tables for which the device wants ids for its next records.
    package var lend: [String] = []
    /// A question in place of change sets.
    package var question: Question?
    /// The fingerprint of the device's rows at `maxRevision`.
    package var fingerprint: Fingerprint?
    package var changeSets: [Envelope] = []

    package init(maxRevision: Int64) { self.maxRevision = maxRevision }

    /// The base of a record without one of its own; a client without rows means it as it is when its turn comes.
    package var base: Int64 { echo == nil ? .max : maxRevision }
}

/// A zone's epoch and latest revision, as pushed to listeners.
public struct ZoneRevision: Hashable, Sendable, Codable {
    /// The zone's name.
    public let zone: String
    /// The epoch.
    public let epoch: String
    /// The latest revision in the epoch.
    public let revision: Int64

    /// Creates a zone's revision.
    public init(zone: String, epoch: String, revision: Int64) {
        self.zone = zone
        self.epoch = epoch
        self.revision = revision
    }

    /// Parses an event's id, `epoch:revision`; nil for any other text.
    public init?(zone: String, id: String) {
        guard let colon = id.lastIndex(of: ":"), colon != id.startIndex,
            let revision = Int64(id[id.index(after: colon)...]), revision >= 0
        else { return nil }
        self.init(zone: zone, epoch: String(id[..<colon]), revision: revision)
    }

    /// The id of an event, `epoch:revision`, with which a listener resumes the stream.
    public var id: String { "\(epoch):\(revision)" }

    /// Whether this is new to a listener at a revision or none; a lower one of the same epoch has arrived late.
    public func isNews(to listener: ZoneRevision?) -> Bool {
        guard let listener, listener.epoch == epoch else { return true }
        return revision > listener.revision
    }
}

/// A change set in a JSON text, as the positions of its values.
package struct ChangeSet: Sendable {
    package struct Record: Sendable {
        /// The key in canonical JSON.
        package var key: String
        /// The revision on which the change is based, if the record has one of its own.
        package var base: Int64?
        /// The key under which its author knows the record, if it is another one: `__oldId__`.
        package var authorsKey: String?
        private let place: UInt32
        private var text: (start: UInt32, count: UInt32) = (0, 0)
        private var cells: (first: UInt32, count: UInt32) = (0, 0)
        package var operation: Operation

        init(table: Int, operation: Operation, key: String, base: Int64? = nil) {
            place = UInt32(table)
            self.operation = operation
            self.key = key
            self.base = base
        }

        /// The place of its table in ``WireNames/tables``.
        package var table: Int { Int(place) }
        /// The places of its values in ``ChangeSet/values``.
        package internal(set) var values: Range<Int> {
            get { Int(cells.first)..<Int(cells.first) + Int(cells.count) }
            set { cells = (UInt32(newValue.lowerBound), UInt32(newValue.count)) }
        }
        /// The place of its attributes in the text, an object; nil if it has none.
        package fileprivate(set) var attributes: Range<Int>? {
            get { text.count == 0 ? nil : Int(text.start)..<Int(text.start) + Int(text.count) }
            set { text = newValue.map { (UInt32($0.lowerBound), UInt32($0.count)) } ?? (0, 0) }
        }
    }

    /// A value of a record: there are many of them, so it is small.
    package struct Value: Sendable {
        /// The place of its column in ``WireNames/Table/columnsByPlace``.
        let column: UInt32
        package let cell: Cell
    }

    /// The index in the list of change sets, from 0.
    package let index: Int
    /// The names of the tables and columns.
    package let names: WireNames
    package internal(set) var range = 0..<0
    /// Whether white space stands between the values.
    package internal(set) var hasWhiteSpace = false
    /// The members that are not tables, by name.
    package internal(set) var members: [String: Cell] = [:]
    /// The places of the tables that it names.
    package internal(set) var tables: [Int] = []
    /// The changes, in the order of the tables' names, of the operations' names, and of the keys in the text.
    package var records: [Record] = []
    package internal(set) var values: [Value] = []
    /// The numbers that changes add to their columns, by place in ``values``.
    package internal(set) var deltas: [Int: Int64] = [:]

    init(index: Int, names: WireNames) {
        self.index = index
        self.names = names
    }

    package func column(at place: Int, of record: Record) -> WireNames.Column {
        names.tables[record.table].columnsByPlace[Int(values[place].column)]
    }

    /// Returns the text without white space between the values, as its author hashes it.
    package func text(in reader: JSONReader) -> [UInt8] { reader.compactText(in: range, of: self) }
}

extension JSONReader {
    /// Returns the text of a part of a change set without white space between the values.
    package func compactText(in range: Range<Int>, of changeSet: ChangeSet) -> [UInt8] {
        changeSet.hasWhiteSpace ? JSONParts.compact(bytes[range]) : Array(bytes[range])
    }
}

extension ChangeSet.Record {
    /// Whether the record has no attributes yet, and may have these.
    func fits(_ attributes: RecordAttributes) -> Bool {
        self.attributes == nil && operation != .delete && (attributes.firstDelta == nil || operation == .update)
    }

    mutating func take(_ attributes: RecordAttributes) {
        base = attributes.base
        authorsKey = attributes.oldKey
        self.attributes = attributes.range
        values = attributes.values
    }
}

/// The attributes of a record, before its change is known: JSON may have them first.
struct RecordAttributes {
    let range: Range<Int>
    var base: Int64?
    var oldKey: String?
    var values = 0..<0
    /// The first column to which it adds.
    var firstDelta: String?
    /// Whether it has more than a revision.
    var hasValues: Bool
}

/// The id of a change set: a UUID, which makes a retry harmless.
package enum ChangeSetID {
    /// Whether a text is a UUID: 32 hexadecimal digits with four hyphens.
    package static func isValid(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        return bytes.indices.allSatisfy { place in
            switch bytes[place] {
            case UInt8(ascii: "-"): hyphens.contains(place)
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                UInt8(ascii: "A")...UInt8(ascii: "F"):
                !hyphens.contains(place)
            default: false
            }
        }
    }

    private static let hyphens = [8, 13, 18, 23]
}

/// A change set on its way into the tables: the positions of its values in a text, and what replaces them.
///
/// The values of a request or an answer stay in its text until they are bound to a statement or compared, so that a
/// hundred thousand rows need little memory; those that somebody decides or computes are in no text. Permanent ids
/// replace temporary ones, stored spellings of keys replace others, and a policy drops overruled values.
package struct PendingChangeSet {
    /// A change to a record; its key gets permanent ids, and the stored spelling.
    package typealias Record = ChangeSet.Record

    /// The text of the request; it has to stay in memory as long as this value.
    package let reader: JSONReader
    /// The positions of the values; the records are in ``records``.
    package internal(set) var changeSet: ChangeSet
    package var records: [Record]
    /// The values in the order of ``ChangeSet/values``, if they stand in no text.
    var decided: [Value]
    /// The values that replace others, such as permanent ids, by place in ``ChangeSet/values``.
    var replaced: [Int: Value] = [:]
    /// The places of the values that a policy has overruled: they are not written.
    package private(set) var overruled: Set<Int> = []

    package init(_ changeSet: consuming ChangeSet, _ reader: JSONReader) {
        self.init(changeSet, reader, values: [])
    }

    /// Creates a pending change set whose values are in no text, in the order of ``ChangeSet/values``.
    init(_ changeSet: consuming ChangeSet, values: [Value]) { self.init(changeSet, .empty, values: values) }

    private init(_ changeSet: consuming ChangeSet, _ reader: JSONReader, values: [Value]) {
        self.reader = reader
        decided = values
        records = changeSet.records
        changeSet.records = []
        self.changeSet = changeSet
    }

    /// The columns that a record sets or adds to, with the places of their values.
    package func columns(of record: Record) -> some Sequence<(place: Int, column: WireNames.Column)> {
        let columns = changeSet.names.tables[record.table].columnsByPlace
        return record.values.lazy.filter { !(!overruled.isEmpty && overruled.contains($0)) }.map {
            ($0, columns[Int(changeSet.values[$0].column)])
        }
    }

    /// Returns the number that a change adds to its column; nil for a value.
    package func delta(at place: Int) -> Int64? { changeSet.deltas.isEmpty ? nil : changeSet.deltas[place] }

    /// Returns a value, only of a place without a delta; the reader of the text has refused those that throw.
    package func value(at place: Int) throws(InvalidValue) -> Value {
        if let value = replacement(at: place) { return value }
        return try reader.value(of: changeSet.values[place].cell)
    }

    /// Returns the position of a value in the text; nil if another one has replaced it, or if it stands in no text.
    package func cell(at place: Int) -> Cell? {
        decided.isEmpty && (replaced.isEmpty || replaced[place] == nil) ? changeSet.values[place].cell : nil
    }

    /// Returns what stands for a value of the text; nil if nothing does.
    package func replacement(at place: Int) -> Value? {
        if !replaced.isEmpty, let value = replaced[place] { return value }
        return decided.isEmpty ? nil : decided[place]
    }

    package mutating func replace(at place: Int, by value: Value) { replaced[place] = value }
    package mutating func overrule(at place: Int) { overruled.insert(place) }
}

/// The hash that identifies a change set's content.
package enum ContentHash {
    /// Returns the SHA-256 of a text in lower-case hexadecimal.
    package static func of(_ text: String) -> String { of([text]) }

    /// Returns the SHA-256 of a change set's text without white space between the values.
    package static func of(_ set: ChangeSet, in reader: JSONReader) -> String {
        var hash = RunningHash()
        if set.hasWhiteSpace {
            hash.take(set.text(in: reader))
        } else {
            hash.take(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: reader.bytes[set.range])))
        }
        return hash.text
    }

    /// Returns the SHA-256 of a text in pieces, which may be large.
    package static func of(_ pieces: [String]) -> String {
        var hash = RunningHash()
        for var piece in pieces { piece.withUTF8 { hash.take(UnsafeRawBufferPointer($0)) } }
        return hash.text
    }
}

/// Computes the chain of a history to which a change set is added piece by piece.
package struct Chain {
    private var hash = RunningHash()

    /// Begins after a history with the chain `previous`.
    package init(after previous: String, revision: Int64) { take("\(previous)\n\(revision)\n") }
    package mutating func take(_ piece: String) { hash.take(Array(piece.utf8)) }

    /// Returns the chain after the last piece.
    package func text(device: String?) -> String {
        // JSON has no line feed and the device comes last, so each history has a unique text.
        var end = self
        end.take("\n\(device ?? "")")
        return end.hash.text
    }
}

/// A SHA-256 hash of bytes in several pieces.
package struct RunningHash {
    private var hash = SHA256()

    package init() {}
    package mutating func take(_ bytes: [UInt8]) { hash.update(data: bytes) }
    package mutating func take(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }

    /// The hash of all pieces so far, lower-case hexadecimal.
    package var text: String { Self.hex(hash.finalize()) }

    /// Returns lower-case hexadecimal digits.
    package static func hex(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
