/// An error with code, place, message and fix; it has no values of columns but keys, so it can be logged and shown.
public struct TidemarkError: Error, Hashable, Sendable {
    /// The reaction of an error's receiver.
    public enum Recovery: String, Sendable {
        /// Retry later, with growing and jittered pauses.
        case retry
        /// Do not retry: a person has to change the request, the schema or the settings first.
        case permanent
        /// Take a new snapshot; the device keeps its outbox and sends it again.
        case resync
        /// Take a new identity and a new snapshot; the device keeps its outbox and sends it again.
        case renew
        /// Compare the rows with the server's and replace the differing ones; the device keeps its outbox.
        case repair
        /// Retry with other credentials; the device keeps its outbox.
        case signIn
        /// Leave the zone: the device sets its outbox aside for a person, and removes the zone's rows.
        case leave
    }

    /// The record, column or change set that an error is about; every part is optional.
    public struct Place: Hashable, Sendable, Codable {
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

        /// Creates a place from its known parts.
        public init(
            changeSet: Int? = nil, id: String? = nil, table: String? = nil, key: String? = nil, column: String? = nil
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
    /// The description of the failure, in one sentence.
    public let message: String
    /// The remedy, in one sentence or in SQL.
    public let fix: String
    /// The place of the failure.
    public var place: Place
    /// The recovery that the sender names for a code that this version does not know.
    var senderRecovery: Recovery?
    /// The pause that the other side requests before the next attempt, in seconds.
    public var retryAfterSeconds: Int?

    /// Creates an error.
    public init(_ code: ErrorCode, _ message: String, fix: String, place: Place = Place()) {
        self.code = code
        self.message = message
        self.fix = fix
        self.place = place
    }

    /// The receiver's reaction, by the code; for an unknown code it is the recovery that the sender names.
    public var recovery: Recovery {
        switch code {
        case .unreachable, .invalidResponse, .unavailable, .internalFailure, .predecessorMissing, .syncInProgress,
            .storageFailed, .rangeNotSatisfiable, .rateLimited, .snapshotPending:
            .retry
        case .snapshotRequired, .epochMismatch, .revisionAhead: .resync
        case .identityInUse, .deviceTaken: .renew
        case .accessRevoked, .zoneGone: .leave
        case .fingerprintMismatch: .repair
        case .signInNeeded, .notAllowed, .accountMismatch: .signIn
        default: senderRecovery ?? .permanent
        }
    }
}

extension TidemarkError: CustomStringConvertible {
    /// One paragraph: message, place, fix and code.
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
