import TidemarkEngine

extension ZoneConnections {
    /// Writes contacts in one statement; a zone that was removed has none.
    ///
    /// The first contact of a known device stays. Another node may have written a later one already, which stays, too.
    /// A contact of another user than the device's, or of a device that was forgotten, is none. Of one user's devices,
    /// those whose contact is the oldest are forgotten above ``DeviceContact/devicesPerUserMax``.
    func keep(_ contacts: [DeviceContact]) async throws {
        let parameters = [
            PostgresArray.quoted(contacts.map(\.zone)), PostgresArray.quoted(contacts.map(\.device)),
            PostgresArray.nullable(contacts.map(\.name)), PostgresArray.nullable(contacts.map(\.user)),
            PostgresArray.numbers(contacts.map(\.first)), PostgresArray.numbers(contacts.map(\.last)),
            PostgresArray.nullable(contacts.map { $0.revision.map(String.init) }), Exchange.forgottenLap,
        ]
        try await throwingClientErrors { [self] in
            try await onLivingConnection { pg in
                // In the order of the key, so that two nodes wait for each other in one direction only.
                _ = try pg.query(
                    """
                    INSERT INTO tidemark.contact AS known (zone, device, name, user_id, first, last, revision)
                    SELECT sent.*
                    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                        $7::bigint[]) AS sent (zone, device, name, user_id, first, last, revision)
                    JOIN tidemark.zone AS zone ON zone.zone = sent.zone
                    WHERE NOT EXISTS (
                        SELECT 1 FROM tidemark.lap AS lap
                        WHERE lap.zone = sent.zone AND lap.device = sent.device
                            AND (lap.lap = $8 OR lap.user_id <> sent.user_id))
                    ORDER BY sent.zone COLLATE "C", sent.device COLLATE "C"
                    ON CONFLICT (zone, device) DO UPDATE SET
                        name = excluded.name,
                        user_id = coalesce(excluded.user_id, known.user_id),
                        last = excluded.last,
                        revision = coalesce(excluded.revision, known.revision)
                    WHERE known.last <= excluded.last AND coalesce(known.user_id = excluded.user_id, true)
                    """,
                    parameters
                )
            }
        }
        for excess in try await excessDevices(of: contacts) {
            try await forget(device: excess.device, of: excess.user, in: [excess.zone])
        }
    }

    /// Returns the devices of the contacts' users above the most that a user may have in a zone.
    private func excessDevices(of contacts: [DeviceContact]) async throws -> [(
        zone: String, user: String, device: String
    )] {
        let places = Set(contacts.compactMap { contact in contact.user.map { [contact.zone, $0] } }).sorted {
            $0.lexicographicallyPrecedes($1)
        }
        return try await throwingClientErrors { [self] in
            try await onLivingConnection { pg in
                try pg.query(
                    """
                    SELECT zone, user_id, device
                    FROM (
                        SELECT contact.zone, contact.user_id, contact.device,
                            row_number() OVER (
                                PARTITION BY contact.zone, contact.user_id
                                ORDER BY contact.last DESC, contact.device COLLATE "C") AS place
                        FROM unnest($1::text[], $2::text[]) AS sent (zone, user_id)
                        JOIN tidemark.contact AS contact USING (zone, user_id)
                    ) AS ranked
                    WHERE place > \(DeviceContact.devicesPerUserMax)
                    """,
                    [PostgresArray.quoted(places.map { $0[0] }), PostgresArray.quoted(places.map { $0[1] })]
                ).map { ($0.text(0), $0.text(1), $0.text(2)) }
            }
        }
    }
}
