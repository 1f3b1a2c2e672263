/// What went wrong, where, by which rule, and what to do about it.
///
/// Messages name zones, tables, keys and columns, never the values of other columns, so that they
/// can be logged and shown.
public struct TidemarkError: Error, Hashable, Sendable {
    /// What the receiver of an error does with it.
    public enum Recovery: String, Sendable {
        /// Try the same again later, with growing and jittered pauses.
        case retry
        /// Somebody has to change something first: the request, the schema, the settings.
        case permanent
        /// Take a new snapshot; the outbox is kept and offered again.
        case resync
        /// Take a new identity and a new snapshot; the outbox is kept and offered again.
        case renew
        /// Compare the rows with the server's and replace those that differ; the outbox is kept.
        case repair
        /// Show other credentials, then try the same again; the outbox is kept.
        case signIn
    }

    /// The record, column or change set that an error is about.
    ///
    /// Every part is optional.
    public struct Place: Hashable, Sendable {
        /// The index of the change set in its request, from 0.
        public var changeSet: Int?
        /// The id of the change set.
        public var id: String?
        /// The table.
        public var table: String?
        /// The record's key in canonical JSON.
        public var key: String?
        /// The column.
        public var column: String?

        /// Makes a place from what is known.
        public init(
            changeSet: Int? = nil,
            id: String? = nil,
            table: String? = nil,
            key: String? = nil,
            column: String? = nil
        ) {
            self.changeSet = changeSet
            self.id = id
            self.table = table
            self.key = key
            self.column = column
        }
    }

    /// The stable name of the error.
    public let code: ErrorCode
    /// What happened, in one sentence.
    public let message: String
    /// What to do about it, in one sentence or in SQL.
    public let fix: String
    /// Where it happened.
    public var place: Place
    /// What the sender of a code that this version does not know says about it.
    var told: Recovery?
    /// The seconds that the other side asks to be left alone for, if it does.
    public var retryAfterSeconds: Int?

    /// Makes an error.
    public init(_ code: ErrorCode, _ message: String, fix: String, place: Place = Place()) {
        self.code = code
        self.message = message
        self.fix = fix
        self.place = place
    }

    /// What the receiver does: derived from the code, so that the two cannot disagree.
    ///
    /// A code that is new to this version goes by what its sender says.
    public var recovery: Recovery {
        switch code {
        case .unreachable, .invalidResponse, .unavailable, .internalFailure, .predecessorMissing, .syncInProgress,
            .storageFailed, .rangeNotSatisfiable:
            .retry
        case .snapshotRequired, .epochMismatch, .revisionAhead: .resync
        case .identityInUse: .renew
        case .fingerprintMismatch: .repair
        case .signInNeeded, .notAllowed: .signIn
        default: told ?? .permanent
        }
    }
}

extension TidemarkError: CustomStringConvertible {
    /// One paragraph: code, place, what happened, what to do.
    public var description: String {
        let place = place.description
        return "\(message)\(place.isEmpty ? "" : " [\(place)]") \(fix) (\(code.rawValue))"
    }
}

extension TidemarkError.Place: CustomStringConvertible {
    /// The known parts, for instance `change set 0, table cities, key 12, column name`.
    public var description: String {
        [
            changeSet.map { "change set \($0)" }, id.map { "id \($0)" }, table.map { "table \($0)" },
            key.map { "key \($0)" }, column.map { "column \($0)" },
        ].compactMap { $0 }.joined(separator: ", ")
    }
}
