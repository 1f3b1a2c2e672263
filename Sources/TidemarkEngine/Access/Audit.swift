/// The record of sign-ins and of changes of rights, in one transaction of the caller.
package struct Audit: AccessCell {
    package let session: AccessSession

    /// How long an entry stays, in milliseconds: 400 days.
    package static let retention: Int64 = 400 * 86_400_000

    /// An event that the audit keeps.
    package enum Action: String, CaseIterable, Sendable {
        case userAdded
        case userDisabled
        case userEnabled
        case userRemoved
        case tokenIssued
        case tokenExchanged
        case tokenReused
        case tokenRevoked
        case deviceForgotten
        case roleChanged
        case zoneMade
        case zoneRenamed
        case zoneDeleted
        case zoneRestored
        case zonePurged
        case invitationMade
        case invitationAccepted
        case invitationRevoked
    }

    package struct Entry: Hashable, Sendable {
        /// The time, in milliseconds since 1970.
        package let time: Int64
        /// The user whose request caused it; nil for a command on the server.
        package let user: String?
        package let action: String
        /// The user or the token that it is about.
        package let subject: String?
        package let zone: String?
        /// More about it; no secret.
        package let detail: String?
    }

    package init(_ session: AccessSession) { self.session = session }

    /// Appends an entry, and deletes those that are too old.
    package func append(
        _ action: Action, by user: String? = nil, subject: String? = nil, zone: String? = nil, detail: String? = nil
    ) throws {
        try database.rows("DELETE FROM tidemark_audit WHERE time < $1", ["\(now - Self.retention)"])
        // Writers wait for one another, so the number after the last one is free.
        try database.rows(
            """
            INSERT INTO tidemark_audit (number, time, user_id, action, subject, zone, detail)
            VALUES ((SELECT coalesce(max(number), 0) + 1 FROM tidemark_audit), $1, $2, $3, $4, $5, $6)
            """,
            ["\(now)", user, action.rawValue, subject, zone, detail])
    }

    /// Returns the entries since a time, oldest first.
    package func entries(since time: Int64) throws -> [Entry] {
        try database.rows(
            """
            SELECT time, user_id, action, subject, zone, detail
            FROM tidemark_audit
            WHERE time >= $1
            ORDER BY number
            """,
            ["\(time)"]
        ).map { row in
            Entry(
                time: row.integer(0) ?? 0, user: row.text(1), action: row.text(2) ?? "", subject: row.text(3),
                zone: row.text(4), detail: row.text(5))
        }
    }
}
