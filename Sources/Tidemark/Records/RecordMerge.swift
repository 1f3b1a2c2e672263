public import GRDB
import TidemarkCore

/// Merges the records of an app's type that two authors changed without having seen each other's change.
///
/// ```swift
/// let merge = RecordMerge<Player> { base, mine, theirs in
///     var merged = mine                                       // what this device changed
///     if mine[Player.name] != .absent { merged[Player.name] = .present(theirs.name) }
///     return merged                                           // absent columns stay as theirs
/// }
/// ```
///
/// The function is pure, and does not touch the database. The device calls it in a transaction, and calls it again with
/// a newer `theirs` if the server refuses the outcome.
public struct RecordMerge<Record: FetchableRecord & TableRecord>: RecordMerging {
    /// The outcome of a merge: the columns to write; nil leaves the decision to a person.
    ///
    /// - Parameters:
    ///   - base: The record as the server had confirmed it before this device's change; nil if it did not exist.
    ///   - mine: The columns that this device changed. One that it adds to has the sum over `theirs`.
    ///   - theirs: The record as the server has it now.
    public typealias Function =
        @Sendable (_ base: Record?, _ mine: Partial<Record>, _ theirs: Record) -> Partial<Record>?

    private let function: Function

    /// Makes a merge of the type's records.
    public init(_ function: @escaping Function) { self.function = function }

    /// The type's table.
    public var table: String { Record.databaseTableName }

    /// Merges one record; one that the type cannot read is left to a person, whom the conflict shows its values.
    public func merge(_ input: MergeInput) -> [String: DatabaseValue]? {
        let changed = input.mine.filter { input.base?[$0.key] != $0.value }
        guard case .success(let theirs) = record(input.theirs, input),
            case .success(let base) = record(input.base, input), let theirs
        else { return nil }
        return function(base, Partial(values: changed), theirs)?.values
    }

    private func record(_ values: [String: DatabaseValue]?, _ input: MergeInput) -> Result<Record?, any Error> {
        Result { try values.map { try Partial<Record>(values: $0.merging(input.keyColumns) { $1 }).record() } }
    }
}
