import GRDB
import TidemarkEngine
import TidemarkSQL

/// The zone's table of devices, for operators.
extension ZoneTransaction {
    /// Writes contacts in one statement.
    ///
    /// The first contact of a known device stays, and so does its revision where a contact has none.
    func keep(_ contacts: [DeviceContact]) throws {
        let rows = contacts.map { contact in
            let texts = [contact.device, contact.name, contact.user].map { $0.map(ChangeSetJSON.quote) ?? "null" }
            let numbers = [contact.first, contact.last, contact.revision].map { $0.map(String.init) ?? "null" }
            return "[\((texts + numbers).joined(separator: ","))]"
        }
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_contact (device, name, user_id, first, last, revision)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
                FROM json_each(?)
                WHERE true
                ON CONFLICT (device) DO UPDATE SET
                    name = excluded.name,
                    user_id = excluded.user_id,
                    last = max(last, excluded.last),
                    revision = coalesce(excluded.revision, revision)
                """
        ).executeAndClearBindings(arguments: ["[\(rows.joined(separator: ","))]"])
    }
}
