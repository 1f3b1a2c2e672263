public import GRDB
import TidemarkCore
import TidemarkSQL

/// A record's key: the values of its table's key columns, in the order of the primary key, as the file stores them.
///
/// Write `7`, `"DE"`, or `["DE", 7]` for a key of two columns.
public struct RecordKey: Hashable, Sendable {
    /// The key in canonical JSON, as the outbox, the log and the conflicts have it: `7`, `"DE"`, `["DE",7]`.
    public let json: String

    /// Creates a key of the values of its columns.
    public init(_ values: [any DatabaseValueConvertible]) {
        let texts = values.map { CanonicalJSON.text(of: $0.databaseValue) }
        self.init(json: texts.count == 1 ? texts[0] : JSONText.array(texts))
    }

    init(json: String) { self.json = json }

    /// The number of its columns; 0 if it is no key.
    var columnCount: Int {
        do { return try CanonicalJSON.parts(of: json).count } catch {
            // A text that is no JSON names no record, and the caller refuses it.
            return 0
        }
    }
}

/// Keys are equal if their bytes are, as SQLite compares them: Swift finds two spellings of "é" equal.
extension RecordKey {
    /// Compares the bytes of two keys.
    public static func == (one: Self, other: Self) -> Bool { one.json.utf8.elementsEqual(other.json.utf8) }

    /// Hashes the bytes of the key.
    public func hash(into hasher: inout Hasher) { for byte in json.utf8 { hasher.combine(byte) } }
}

extension RecordKey: ExpressibleByIntegerLiteral {
    /// Creates the key of a record with an integer id.
    public init(integerLiteral id: Int64) { self.init([id]) }
}

extension RecordKey: ExpressibleByStringLiteral {
    /// Creates the key of a record with a text as id.
    public init(stringLiteral id: String) { self.init([id]) }
}

extension RecordKey: ExpressibleByArrayLiteral {
    /// Creates the key of a record with several key columns.
    public init(arrayLiteral values: any DatabaseValueConvertible...) { self.init(values) }
}
