import GRDB
import TidemarkEngine
import TidemarkSQL

/// The zone's table of devices, for operators.
extension ZoneTransaction {
    /// Writes contacts in one statement.
    ///
    /// The first contact of a known device stays, and so does its revision where a contact has none. A contact of
    /// another user than the device's, or of a device that was forgotten, is none. Of one user's devices, those whose
    /// contact is the oldest are forgotten above ``DeviceContact/devicesPerUserMax``.
    func keep(_ contacts: [DeviceContact]) throws {
        let rows = contacts.map { contact in
            let texts = [contact.device, contact.name, contact.user].map { $0.map(JSONText.quote) ?? "null" }
            let numbers = [contact.first, contact.last, contact.revision].map { $0.map(String.init) ?? "null" }
            return "[\((texts + numbers).joined(separator: ","))]"
        }
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_contact (device, name, user_id, first, last, revision)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
                FROM json_each(?1) AS sent
                WHERE NOT EXISTS (
                    SELECT 1 FROM tidemark_lap AS lap
                    WHERE lap.device = sent.value ->> 0 AND (lap.lap = ?2 OR lap.user_id <> sent.value ->> 2))
                ON CONFLICT (device) DO UPDATE SET
                    name = excluded.name,
                    user_id = coalesce(excluded.user_id, user_id),
                    last = max(last, excluded.last),
                    revision = coalesce(excluded.revision, revision)
                WHERE coalesce(user_id = excluded.user_id, true)
                """
        ).executeAndClearBindings(arguments: ["[\(rows.joined(separator: ","))]", Exchange.forgottenLap])
        for user in Set(contacts.compactMap(\.user)).sorted() {
            let excess = try String.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT device FROM tidemark_contact WHERE user_id = ?
                        ORDER BY last DESC, device LIMIT -1 OFFSET \(DeviceContact.devicesPerUserMax)
                        """
                ),
                arguments: [user]
            )
            for device in excess { try forget(device: device, of: user) }
        }
    }
}
