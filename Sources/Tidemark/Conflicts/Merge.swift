import Foundation
public import GRDB
import TidemarkCore
import TidemarkSQL

/// One record that two authors changed without having seen each other's change.
///
/// The values are those of all columns apart from the key, by name. In a column with the policy `add`,
/// `mine` is `theirs` plus what this device added, and `base` is `theirs`.
public struct MergeInput: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The record's key in canonical JSON.
    public let key: String
    /// The confirmed record that this device edited; nil if the record did not exist.
    public let base: [String: DatabaseValue]?
    /// The record as this device edited it.
    public let mine: [String: DatabaseValue]
    /// The record as the server has it now.
    public let theirs: [String: DatabaseValue]
    /// The values of the key's columns, by name.
    public let keyColumns: [String: DatabaseValue]

    /// Makes an input.
    public init(
        table: String, key: String, base: [String: DatabaseValue]?, mine: [String: DatabaseValue],
        theirs: [String: DatabaseValue], keyColumns: [String: DatabaseValue] = [:]
    ) {
        self.table = table
        self.key = key
        self.base = base
        self.mine = mine
        self.theirs = theirs
        self.keyColumns = keyColumns
    }
}

/// Merges one record, or returns nil to leave the decision to a person.
///
/// It returns the values to write, by column; omitted columns stay as `theirs`. The function must be
/// pure and must not touch the database. The device calls it inside a transaction, and calls it again
/// with a newer `theirs` if the server refuses the outcome.
public typealias MergeFunction = @Sendable (MergeInput) -> [String: DatabaseValue]?

/// A merge of the records of one table: a ``RecordMerge`` of an app's record type, or a ``TableMerge``.
public protocol RecordMerging: Sendable {
    /// The table.
    var table: String { get }

    /// Merges one record, as a ``MergeFunction`` does.
    func merge(_ input: MergeInput) -> [String: DatabaseValue]?
}

/// Merges the records of a table by column, without a record type.
public struct TableMerge: RecordMerging {
    /// The table.
    public let table: String
    private let function: MergeFunction

    /// Makes a merge of a table's records.
    public init(_ table: String, _ function: @escaping MergeFunction) {
        self.table = table
        self.function = function
    }

    /// Merges one record.
    public func merge(_ input: MergeInput) -> [String: DatabaseValue]? { function(input) }
}

/// A record of a conflict with the values that the app or the user merged.
public struct MergedRecord: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The record's key in canonical JSON.
    public let key: String
    /// The values of the columns to write; nil leaves the record as the server has it.
    public let columns: [String: DatabaseValue]?

    /// Makes a merged record.
    public init(table: String, key: String, columns: [String: DatabaseValue]?) {
        self.table = table
        self.key = key
        self.columns = columns
    }

    /// Decodes the values of columns from a JSON object in the protocol's form.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if the text is no JSON object, or has a value that no column can hold.
    public static func columns(json: String) throws -> [String: DatabaseValue] {
        guard isObject(json) else { throw refusal(of: json, "is no object of columns") }
        do throws(InvalidValue) { return try RecordImage(json: json).databaseValues() } catch {
            throw refusal(of: json, "has a value that \(error.reason)")
        }
    }

    private static func isObject(_ json: String) -> Bool {
        do { return try JSONSerialization.jsonObject(with: Data(json.utf8)) is [String: Any] } catch {
            // The caller refuses a text that is no JSON like one that is no object.
            return false
        }
    }

    private static func refusal(of json: String, _ reason: String) -> TidemarkError {
        TidemarkError(
            .invalidArgument, "\(json) \(reason).",
            fix: #"Write the values in JSON, for instance {"name":"Anna","goals":7}."#)
    }
}

/// A decision on a parked conflict.
public enum Resolution: Hashable, Sendable {
    /// The server's rows stay; the device drops its own changes.
    case accept
    /// The device makes its changes again on top of the server's rows, as a new change set.
    ///
    /// A new record whose key another record has by now sets only those columns that its author has set.
    case retry
    /// Like ``retry``, with these values in place of the device's own.
    case merge([MergedRecord])
}

/// What becomes of a new record whose number another record has, if a person decides to make it again.
///
/// Programs that number records themselves draw the same number on two devices. The two are different records.
public enum TakenIDs: Hashable, Sendable {
    /// The decision is refused, and says so.
    case refuse
    /// The record gets another id, and the change sets that refer to it follow.
    case asNew
    /// The record takes the other one's place, with all its columns.
    case replace
}
