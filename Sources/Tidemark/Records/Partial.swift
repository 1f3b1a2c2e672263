public import GRDB

/// A part of a record: some columns are present, with a value or NULL, and the others are absent.
///
/// A screen shows and edits parts of records, often of several tables. ``merging(_:overriding:)`` joins two parts:
/// the stored values with those that a person has typed, or a row with defaults for its empty columns. The idea, and
/// its name `merge(record, override)`, are from Casa Taloyum's articles on local persistence in iOS apps.
///
/// ```swift
/// extension Player {
///     static let name = RecordColumn<Player, String>("name")
///     static let goals = RecordColumn<Player, Int>("goals")
/// }
/// var typed = Partial<Player>()
/// typed[Player.name] = .present("Anna")
/// typed[Player.goals] = .present(nil)
/// let shown = try Partial(stored).merging(typed, overriding: true)
/// ```
///
/// A value: it holds no database.
public struct Partial<Record>: Hashable, Sendable {
    /// The present columns, by name.
    public private(set) var values: [String: DatabaseValue]

    /// Creates a part without columns.
    public init() { values = [:] }

    /// Creates a part of columns by name.
    public init(values: [String: DatabaseValue]) { self.values = values }

    /// The value of a column; a stored value that is not of the column's type reads as NULL does.
    public subscript<Value: DatabaseValueConvertible>(column: RecordColumn<Record, Value>) -> Presence<Value?> {
        get { values[column.name].map { .present(Value.fromDatabaseValue($0)) } ?? .absent }
        set {
            switch newValue {
            case .absent: values[column.name] = nil
            case .present(let value): values[column.name] = value?.databaseValue ?? .null
            }
        }
    }

    /// Joins two parts.
    ///
    /// A value covers NULL, and NULL covers nothing unless `overriding`. Absent columns cover nothing.
    ///
    /// | this | other | not overriding | overriding |
    /// | --- | --- | --- | --- |
    /// | absent | absent | absent | absent |
    /// | absent | NULL or w | other | other |
    /// | NULL or v | absent | this | this |
    /// | NULL | NULL | NULL | NULL |
    /// | NULL | w | w | w |
    /// | v | NULL | v | NULL |
    /// | v | w | v | w |
    ///
    public func merging(_ other: Self, overriding: Bool) -> Self {
        Self(values: values.merging(other.values) { mine, theirs in overriding || mine.isNull ? theirs : mine })
    }
}

extension Partial where Record: EncodableRecord {
    /// Creates a part with all columns of a record.
    ///
    /// - Throws: An error of the record's encoding.
    public init(_ record: Record) throws { self.init(values: try record.databaseDictionary) }
}

extension Partial where Record: FetchableRecord {
    /// Returns the whole record.
    ///
    /// - Throws: An error of the record's decoding, for instance because a column is absent.
    public func record() throws -> Record { try Record(row: Row(values)) }
}

/// Whether a part of a record has a column.
public enum Presence<Value> {
    /// The part does not have the column.
    case absent
    /// The part has the column with this value.
    case present(Value)
}

extension Presence: Equatable where Value: Equatable {}
extension Presence: Hashable where Value: Hashable {}
extension Presence: Sendable where Value: Sendable {}
