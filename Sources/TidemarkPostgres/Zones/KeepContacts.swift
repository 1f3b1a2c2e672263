import TidemarkEngine

extension ZoneConnections {
    /// Writes contacts in one statement; a zone that was removed has none.
    ///
    /// The first contact of a known device stays. Another node may have written a later one already, which stays, too.
    func keep(_ contacts: [DeviceContact]) async throws {
        let parameters = [
            PostgresArray.quoted(contacts.map(\.zone)), PostgresArray.quoted(contacts.map(\.device)),
            PostgresArray.nullable(contacts.map(\.name)), PostgresArray.nullable(contacts.map(\.user)),
            PostgresTransaction.array(contacts.map(\.first)), PostgresTransaction.array(contacts.map(\.last)),
            PostgresArray.nullable(contacts.map { $0.revision.map(String.init) }),
        ]
        try await throwingClientErrors { [self] in
            try await onLivingConnection { pg, _ in
                // In the order of the key, so that two nodes wait for each other in one direction only.
                _ = try pg.query(
                    """
                    INSERT INTO tidemark.contact AS known (zone, device, name, user_id, first, last, revision)
                    SELECT sent.*
                    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                        $7::bigint[]) AS sent (zone, device, name, user_id, first, last, revision)
                    JOIN tidemark.zone AS zone ON zone.zone = sent.zone
                    ORDER BY sent.zone COLLATE "C", sent.device COLLATE "C"
                    ON CONFLICT (zone, device) DO UPDATE SET
                        name = excluded.name,
                        user_id = excluded.user_id,
                        last = excluded.last,
                        revision = coalesce(excluded.revision, known.revision)
                    WHERE known.last <= excluded.last
                    """,
                    parameters
                )
            }
        }
    }
}
