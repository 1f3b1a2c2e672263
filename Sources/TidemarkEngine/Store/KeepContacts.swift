import TidemarkCore

/// The zone's tables of devices and of refusals, for operators.
extension BookDatabase {
    /// Writes contacts of this zone, and forgets the records of refusals before the latest 10,000.
    ///
    /// The first contact of a known device stays, and so does its revision where a contact has none. Another node may
    /// have written a later one already, which stays, too. A contact of another user than the device's, or of a device
    /// that was forgotten, is none. Of one user's devices, those whose contact is the oldest are forgotten above
    /// ``DeviceContact/devicesPerUserMax``.
    package func keepContacts(_ contacts: [DeviceContact]) throws {
        // In the order of the key, so that two nodes wait for each other in one direction only.
        let rows: [[Value]] = contacts.sorted { $0.device < $1.device }.map { contact in
            [
                .text(contact.device), contact.name.map(Value.text) ?? .null, contact.user.map(Value.text) ?? .null,
                .integer(contact.first), .integer(contact.last), contact.revision.map(Value.integer) ?? .null,
            ]
        }
        try write(BookQuestion(ContactSQL.keep, [.text(Exchange.forgottenLap)], about: rows))
        try forgetOldRefusals()
        for user in Set(contacts.compactMap(\.user)).sorted() {
            for row in try self.rows(ContactSQL.excess, [.text(user)]) {
                try forget(device: try row.text(0), of: user)
            }
        }
    }

    /// Forgets the records of refusals before the latest 10,000.
    func forgetOldRefusals() throws { try write(ContactSQL.forgetRefusals, []) }

    /// Deletes a device's contact and the notes for it, and takes a nonce that no device knows for its last one.
    ///
    /// With `user`, only if the device is that user's.
    package func forget(device: String, of user: String?) throws {
        let names = [Value.text(device), user.map(Value.text) ?? .null]
        try write(ContactSQL.deleteNotes, names)
        try write(ContactSQL.forgetLap, names + [.text(Exchange.forgottenLap)])
        try write(ContactSQL.deleteContact, names)
    }
}

private enum ContactSQL {
    static let keep = BookStatement(
        """
        INSERT INTO {contact} AS known ({|zone, }device, name, user_id, first, last, revision)
        SELECT {|$1, }asked.device, asked.name, asked.user_id, asked.first, asked.last, asked.revision
        FROM {asked}
        WHERE EXISTS (SELECT 1 FROM {zone} WHERE {here}) AND NOT EXISTS (
            SELECT 1
            FROM {lap} AS lap
            WHERE {here lap} AND lap.device = asked.device AND (lap.lap = $2 OR lap.user_id <> asked.user_id))
        ON CONFLICT ({|zone, }device) DO UPDATE SET
            name = excluded.name,
            user_id = coalesce(excluded.user_id, known.user_id),
            last = excluded.last,
            revision = coalesce(excluded.revision, known.revision)
        WHERE known.last <= excluded.last AND coalesce(known.user_id = excluded.user_id, true)
        """,
        about: [
            "device": "text", "name": "text", "user_id": "text", "first": "bigint", "last": "bigint",
            "revision": "bigint",
        ])
    static let forgetRefusals = BookStatement(
        """
        DELETE FROM {refused}
        WHERE {here} AND number <= (SELECT max(number) FROM {refused} WHERE {here}) - 10000
        """)
    static let excess = BookStatement(
        """
        SELECT device
        FROM {contact}
        WHERE {here} AND user_id = $2
        ORDER BY last DESC, device
        LIMIT 1000 OFFSET \(DeviceContact.devicesPerUserMax)
        """)

    private static let isUsers = "device = $2 AND coalesce(user_id = $3, CAST($3 AS text) IS NULL)"
    static let deleteNotes = BookStatement(
        """
        DELETE FROM {overruled}
        WHERE {here} AND device = $2 AND EXISTS (SELECT 1 FROM {lap} WHERE {here} AND \(isUsers))
        """)
    static let forgetLap = BookStatement("UPDATE {lap} SET lap = $4 WHERE {here} AND \(isUsers)")
    static let deleteContact = BookStatement("DELETE FROM {contact} WHERE {here} AND \(isUsers)")
}
