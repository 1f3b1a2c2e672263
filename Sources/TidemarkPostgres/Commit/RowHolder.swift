import TidemarkCore
import TidemarkSQL

/// A session of PostgreSQL that holds rows of a request.
struct RowHolder: Hashable, Sendable, CustomStringConvertible {
    /// The session's process, for `pg_terminate_backend`.
    let process: Int64
    /// The program's `application_name`; nil if the role may not see it.
    let application: String?
    /// The session's state, such as `idle in transaction` for a forgotten one.
    let state: String?
    /// The age of its transaction, in seconds.
    let seconds: Int64?

    var description: String {
        var text = "process \(process) of PostgreSQL"
        if let application { text = "\(application), \(text)" }
        if let state { text += ", \(state)" }
        if let seconds { text += " for \(seconds) s" }
        return text
    }
}

extension PostgresTransaction {
    /// The wait for a row after one request of the group has timed out, in milliseconds.
    private static let laterRowPatience = 100

    /// Returns the error for a request whose rows another program holds; its device retries, and others go on.
    func rowsHeldError() throws -> TidemarkError {
        try pg.execute("SET LOCAL lock_timeout = \(Self.laterRowPatience)")
        var holderText = ""
        var cureText = ""
        if let holder = try rowHolder() {
            holders.append(holder)
            holderText = ": \(holder)"
            cureText = ": SELECT pg_terminate_backend(\(holder.process))"
        }
        return TidemarkError(
            .unavailable, "Another program holds rows that this request needs\(holderText).",
            fix: "Try again in a moment. The operator can end a forgotten transaction\(cureText).")
    }

    /// Finds the oldest other transaction that wrote to a served table or locked its rows.
    private func rowHolder() throws -> RowHolder? {
        try pg.query(
            """
            SELECT table_lock.pid, nullif(activity.application_name, ''), activity.state,
                extract(epoch FROM clock_timestamp() - activity.xact_start)::bigint
            FROM pg_locks AS table_lock
            LEFT JOIN pg_stat_activity AS activity ON activity.pid = table_lock.pid
            WHERE table_lock.granted AND table_lock.locktype = 'relation' AND table_lock.pid <> pg_backend_pid()
                AND table_lock.mode <> 'AccessShareLock' AND table_lock.database = (
                    SELECT oid FROM pg_database WHERE datname = current_database())
                AND table_lock.relation = ANY ($1::regclass[]::oid[])
            ORDER BY coalesce(activity.application_name = 'tidemark', false), activity.xact_start
            LIMIT 1
            """,
            [PostgresArray.quoted(served.tables.values.map(\.name).sorted())]
        ).map { RowHolder(process: $0.integer(0) ?? 0, application: $0[1], state: $0[2], seconds: $0.integer(3)) }.first
    }
}
