package import TidemarkCore

/// An error that PostgreSQL reported, or an error of the connection.
package struct PostgresFailure: Error, Sendable, CustomStringConvertible {
    /// The five characters of SQLSTATE; empty if the connection failed.
    package let state: String
    /// PostgreSQL's message, for the log only: it may quote values.
    package let message: String
    package var table: String?
    package var column: String?
    /// The violated constraint or unique index.
    package var constraint: String?
    /// The C function of PostgreSQL that reported the error.
    package var source: String?
    package var sql: String?
    /// Whether the work had no effect yet, so that it may start again on another connection.
    package var isBeforeBegin = false

    package var description: String { state.isEmpty ? message : "\(state): \(message)" }
    package var isDisconnected: Bool { state.isEmpty || state.hasPrefix("08") || state.hasPrefix("57P") }
    /// Whether a retry may succeed: after a deadlock, serialisation failure, lock timeout or altered table.
    package var isTransient: Bool { ["40001", "40P01", "55P03", "55006"].contains(state) || isAboutAlteredTable }

    /// Runs `body`, and marks its failure as one without an effect, so that another connection may repeat it.
    static func beforeBegin<Success>(_ body: () throws -> Success) throws -> Success {
        do { return try body() } catch var failure as PostgresFailure {
            failure.isBeforeBegin = true
            throw failure
        }
    }

    /// Whether PostgreSQL refuses the written values: by a type, constraint, index, policy or trigger.
    ///
    /// A trigger of the app may raise any state. So all states count except the server's own failures
    /// and faults in a trigger's code, which the operator repairs. Row policies and triggers report
    /// 42501; `aclcheck_error` reports it for a missing privilege.
    var isAboutValues: Bool {
        guard !isDisconnected, !isTransient else { return false }
        if state == "42501" { return source != "aclcheck_error" }
        return !Self.operatorClasses.contains(String(state.prefix(2)))
    }

    /// The SQLSTATE classes of failures that the operator repairs.
    private static let operatorClasses: Set<String> = [
        "25", "26", "28", "3D", "3F", "40", "42", "53", "55", "57", "58", "72", "F0", "HV", "XX",
    ]

    /// Whether a program altered a table or column after the transaction read the catalogue.
    package var isAboutAlteredTable: Bool { ["42703", "42P01", "0A000"].contains(state) }

    /// Returns the error for clients; PostgreSQL's own message stays out, because it may quote rows.
    package func clientError() -> TidemarkError {
        switch state {
        case "53100", "53200":
            TidemarkError(
                .storageFailed, "The database has no room left.",
                fix: "Make room on its disk; devices keep their outbox and try again.")
        case "55P03", "40001", "40P01", "57014":
            TidemarkError(
                .unavailable, "Another program holds rows that this request needs.", fix: "Try again in a moment.")
        case "42703", "42P01", "0A000":
            TidemarkError(.unavailable, "The tables of the database are being altered.", fix: "Try again in a moment.")
        default:
            if isDisconnected || state.hasPrefix("53") || state == "25P03" {
                TidemarkError(
                    .unavailable, "The database cannot be reached.",
                    fix: "Try again in a moment; the server's log has the cause.")
            } else {
                TidemarkError(
                    .internalFailure, "The database refused a statement (SQLSTATE \(state)).",
                    fix: "The server's log has the cause.")
            }
        }
    }
}
