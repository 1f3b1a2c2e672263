package import TidemarkCore

/// The reason why the store cannot commit a change set.
package enum Violation: Error, Hashable, Sendable {
    /// It collides with another author's change: the verdict is a conflict.
    case conflict([ConflictReason])
    /// It is invalid in itself: the server refuses the request.
    case refusal(TidemarkError)
}

/// One reason of a conflict, an element of the member `reasons`.
package struct ConflictReason: Hashable, Sendable, Codable {
    package let table: String
    /// The record's key in canonical JSON; empty when the database names only the columns.
    package let key: String
    /// The columns that both changes set; empty when the whole record is concerned.
    package let columns: [String]
    package let rule: String
    /// The rule in words.
    package let message: String
}

extension ConflictReason {
    package init(table: String, key: String, columns: [String], rule: ConflictRule) {
        self.table = table
        self.key = key
        self.columns = columns
        self.rule = rule.rawValue
        self.message =
            switch rule {
            case .changed: "Somebody else changed this record since your base."
            case .deleted: "Somebody else deleted this record."
            case .exists: "Somebody else created a record with this key."
            case .unique: "Another record holds this unique value."
            case .parentDeleted: "The record that this one refers to was deleted."
            case .referenced: "Other records still refer to this one."
            case .predecessor: "The change set that this one depends on was refused."
            case .forbidden: "Your role in this zone does not permit this change."
            case .overruled: "Another value stands here; this one is kept."
            }
    }
}

extension TidemarkError {
    package static func constraintViolated(_ reason: String, in table: String?, _ column: String? = nil) -> Self {
        TidemarkError(
            .constraintViolated, "The table refuses a record: \(reason).",
            fix: "Give every NOT NULL column a value, and values that the CHECK rules allow.",
            place: .init(table: table, column: column))
    }

    /// The refusal of a record without a value that the device's version of the table does not have.
    package static func deviceBehind(_ table: String, _ column: String) -> TidemarkError {
        TidemarkError(
            .deviceBehind,
            "\(table).\(column) is NOT NULL without a default, and the device's version of the table does not have "
                + "it.", fix: "Update the app, then retry; or give the column a default at the server.",
            place: .init(table: table, column: column))
    }
}

/// A contended record of an accepted change set in which some values are overruled.
package struct Overruling: Hashable, Sendable {
    /// The record with both changes.
    package let contention: Contention
    /// The columns in which the change set's value loses.
    package let mine: Set<String>
    /// The columns in which the change set replaces a value that its author had not seen.
    package let theirs: Set<String>
}
