/// A change set in a JSON text, as the positions of its values.
package struct ChangeSet: Sendable {
    /// A change to a record.
    package struct Record: Sendable {
        /// The place of its table in ``WireNames/tables``.
        package let table: Int
        /// The kind of change.
        package var operation: Operation
        /// The key in canonical JSON.
        package var key: String
        /// The revision on which the change is based, if the record has one of its own.
        package var base: Int64?
        /// The key under which its author knows the record, if it is another one: `__oldId__`.
        package var authorsKey: String?
        /// The position of its attributes.
        package fileprivate(set) var attributes: Range<Int>?
        /// The places of its values in ``ChangeSet/values``.
        package internal(set) var values = 0..<0
    }

    /// A value of a record.
    package struct Value: Sendable {
        /// The column.
        package let column: WireNames.Column
        /// The position.
        package let cell: Cell
        /// The number that the change adds to the column; nil for a value.
        package let delta: Int64?
    }

    /// The index in the list of change sets, from 0.
    package let index: Int
    /// The position.
    package internal(set) var range = 0..<0
    /// Whether white space stands between the values.
    package internal(set) var hasWhiteSpace = false
    /// The members that are not tables, by name.
    package internal(set) var members: [String: Cell] = [:]
    /// The places of the tables that it names.
    package internal(set) var tables: [Int] = []
    /// The changes, in the order of the tables' names, of the operations' names, and of the keys in the text.
    package var records: [Record] = []
    /// The values of all records.
    package internal(set) var values: [Value] = []

    /// Creates an empty change set.
    init(index: Int) { self.index = index }

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
    /// Takes what its attributes have.
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
