import TidemarkEngine

extension ZoneConnections {
    /// Deletes a device's contact and the notes for it, and takes a nonce that no device knows for its last one.
    ///
    /// With `user`, only in zones where the device is that user's.
    func forget(device: String, of user: String?, in zones: [String]) async throws {
        let names = PostgresArray.quoted(zones.filter { !$0.utf8.contains(0) })
        try await throwingClientErrors { [self] in
            try await onLivingConnection { pg in
                _ = try pg.query(
                    """
                    WITH forgotten AS (
                        UPDATE tidemark.lap SET lap = $4
                        WHERE zone = ANY ($1::text[]) AND device = $2 AND coalesce(user_id = $3, $3::text IS NULL)
                        RETURNING zone, device
                    ), lost AS (
                        DELETE FROM tidemark.contact
                        WHERE zone = ANY ($1::text[]) AND device = $2 AND coalesce(user_id = $3, $3::text IS NULL)
                    )
                    DELETE FROM tidemark.overruled AS note
                    USING forgotten
                    WHERE note.zone = forgotten.zone AND note.device = forgotten.device
                    """,
                    [names, device, user, Exchange.forgottenLap]
                )
            }
        }
    }
}
