package import TidemarkCore

/// An error that PostgreSQL reported, or that the connection to it met.
package struct PostgresFailure: Error, Sendable, CustomStringConvertible {
    /// The five characters of SQLSTATE; empty when the connection failed.
    package let state: String
    /// What PostgreSQL says, for the log: it may quote values.
    package let message: String
    /// The table that the error is about.
    package var table: String?
    /// The column that the error is about.
    package var column: String?
    /// The constraint or unique index that refused.
    package var constraint: String?
    /// The function of PostgreSQL's own that reported it.
    package var source: String?
    /// The statement that failed.
    package var sql: String?
    /// Whether nothing has been done yet, so that another connection may begin.
    package var isBeforeBegin = false

    package var description: String { state.isEmpty ? message : "\(state): \(message)" }

    /// Whether the connection is of no use any more.
    package var isDisconnected: Bool { state.isEmpty || state.hasPrefix("08") || state.hasPrefix("57P") }

    /// Whether the same transaction, begun anew, may well succeed: a deadlock, a serialisation
    /// failure, or a lock that was not to be had in time.
    package var isTransient: Bool { ["40001", "40P01", "55P03", "55006"].contains(state) || isAboutAlteredTable }

    /// Whether it is about what was written: a value does not fit its column, or a constraint, an
    /// index, a policy or a trigger refuses the row.
    ///
    /// A trigger of the app's own may raise any state. So it is all but the server's trouble and
    /// mistakes in the code of a trigger, which whoever runs the server mends; 42501 is what
    /// policies say of a row, and triggers, too, unless somebody lacks a right to a table.
    var isAboutValues: Bool {
        guard !isDisconnected, !isTransient else { return false }
        if state == "42501" { return source != "aclcheck_error" }
        return !Self.troubles.contains(String(state.prefix(2)))
    }

    private static let troubles: Set<String> = [
        "25", "26", "28", "3D", "3F", "40", "42", "53", "55", "57", "58", "72", "F0", "HV", "XX",
    ]

    /// Whether a column or a table is not what it was: somebody has altered it since the
    /// transaction looked.
    package var isAboutAlteredTable: Bool { ["42703", "42P01", "0A000"].contains(state) }

    /// What clients are told: never PostgreSQL's own words, which may quote rows.
    package func typed() -> TidemarkError {
        switch state {
        case "53100", "53200":
            TidemarkError(
                .storageFailed,
                "The database has no room left.",
                fix: "Make room on its disk; devices keep their outbox and try again."
            )
        case "55P03", "40001", "40P01", "57014":
            TidemarkError(
                .unavailable,
                "Another program holds rows that this request needs.",
                fix: "Try again in a moment."
            )
        case "42703", "42P01", "0A000":
            TidemarkError(.unavailable, "The tables of the database are being altered.", fix: "Try again in a moment.")
        default:
            if isDisconnected || state.hasPrefix("53") || state == "25P03" {
                TidemarkError(
                    .unavailable,
                    "The database cannot be reached.",
                    fix: "Try again in a moment; whoever runs the server finds the cause in its log."
                )
            } else {
                TidemarkError(
                    .internalFailure,
                    "The database refused a statement (SQLSTATE \(state)).",
                    fix: "Whoever runs the server finds the cause in its log."
                )
            }
        }
    }
}
