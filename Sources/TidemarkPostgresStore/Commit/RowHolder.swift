import TidemarkCore
import TidemarkSQLite

/// A session of PostgreSQL that holds rows which a request needs.
struct RowHolder: Hashable, Sendable, CustomStringConvertible {
    /// The session's process, for `pg_terminate_backend`.
    let process: Int64
    /// What the program calls itself; nil where the role may not see it.
    let application: String?
    /// What the session does: `idle in transaction` for one that was forgotten.
    let state: String?
    /// How long its transaction has lasted, in seconds.
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
    /// How long the later requests of a group wait for a row once one has waited in vain, in
    /// milliseconds.
    private static let laterPatience = 100

    /// The error of a request that needs rows which another program holds.
    ///
    /// Only this request is refused, and is tried again by its device; the others of its group go
    /// on.
    func heldByOthers() throws -> TidemarkError {
        try pg.execute("SET LOCAL lock_timeout = \(Self.laterPatience)")
        var who = ""
        var how = ""
        if let holder = try rowHolder() {
            holders.append(holder)
            who = ": \(holder)"
            how = ": SELECT pg_terminate_backend(\(holder.process))"
        }
        return TidemarkError(
            .unavailable,
            "Another program holds rows that this request needs\(who).",
            fix: "Try again in a moment. Whoever runs the server ends a forgotten transaction\(how)."
        )
    }

    /// The oldest transaction of another program that has written to a served table, or locked rows
    /// of it.
    private func rowHolder() throws -> RowHolder? {
        try pg.query(
            """
            SELECT l.pid, nullif(a.application_name, ''), a.state,
                extract(epoch FROM clock_timestamp() - a.xact_start)::bigint
            FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
            WHERE l.granted AND l.locktype = 'relation' AND l.pid <> pg_backend_pid()
                AND l.mode <> 'AccessShareLock' AND l.database = (
                    SELECT oid FROM pg_database WHERE datname = current_database())
                AND l.relation = ANY ($1::regclass[]::oid[])
            ORDER BY coalesce(a.application_name = 'tidemark', false), a.xact_start LIMIT 1
            """,
            [PostgresArray.quoted(tables.values.map(\.name).sorted())]
        ).map { RowHolder(process: $0.integer(0) ?? 0, application: $0[1], state: $0[2], seconds: $0.integer(3)) }.first
    }
}
