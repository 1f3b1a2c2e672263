/// An error as it travels from server to device: `{"error": {"code": ..., "message": ..., ...}}`.
public struct WireError: Codable, Hashable, Sendable {
    /// The error.
    public let error: Content

    /// What stands under `error`.
    public struct Content: Codable, Hashable, Sendable {
        /// The stable name, for instance `unknownColumn`.
        public let code: String
        /// What happened, in one sentence.
        public let message: String
        /// What to do about it.
        public let fix: String
        /// What the receiver does: `retry`, `permanent`, `resync`, `renew`, `repair` or
        /// `signIn`.
        public let recovery: String
        /// Where it happened; absent when no part is known.
        public let place: Place?
    }

    /// The known parts of a place.
    public struct Place: Codable, Hashable, Sendable {
        /// The index of the change set in its request, from 0.
        public let changeSet: Int?
        /// The id of the change set.
        public let id: String?
        /// The table.
        public let table: String?
        /// The record's key in canonical JSON.
        public let key: String?
        /// The column.
        public let column: String?
    }

    /// Makes the form that travels.
    public init(_ error: TidemarkError) {
        self.error = Content(
            code: error.code.rawValue,
            message: error.message,
            fix: error.fix,
            recovery: error.recovery.rawValue,
            place: error.place == TidemarkError.Place() ? nil : Place(error.place)
        )
    }

    /// The error that was sent, with its recovery derived from its code again.
    ///
    /// A recovery of a later version counts as `retry`, which harms nothing.
    public var tidemarkError: TidemarkError {
        var read = TidemarkError(
            ErrorCode(rawValue: error.code),
            error.message,
            fix: error.fix,
            place: error.place?.place ?? TidemarkError.Place()
        )
        let told = TidemarkError.Recovery(rawValue: error.recovery) ?? .retry
        if read.recovery != told { read.told = told }
        return read
    }
}

extension WireError.Place {
    fileprivate init(_ place: TidemarkError.Place) {
        changeSet = place.changeSet
        id = place.id
        table = place.table
        key = place.key
        column = place.column
    }

    fileprivate var place: TidemarkError.Place {
        TidemarkError.Place(changeSet: changeSet, id: id, table: table, key: key, column: column)
    }
}
