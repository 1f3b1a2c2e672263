import TidemarkCore
import TidemarkEngine

/// Reads: they take no lock, and run beside commits.
extension ZoneConnections {
    /// Reads a zone's head for a device in one round trip; nil if changes wait to be absorbed, or tables were altered.
    func pullHead(of zone: String, for device: String?) async throws -> ZoneHead? {
        try await reading { pg, served in
            let books = try ZoneConnection(pg, zone: zone, of: served)
            do {
                return try books.zoneHead(for: device, schema: served.hash, layout: served.schema.fingerprintLayout)
            } catch is TablesAltered { return nil }
        }
    }

    /// Reads consecutive change sets that end with the last of a range, oldest first.
    func recentChangeSets(_ zone: String, _ range: ClosedRange<Int64>, bytesMax: Int) async throws
        -> [RecentChangeSet]
    {
        try await reading { pg, served in
            let books = try ZoneConnection(pg, zone: zone)
            return try books.recent(range, layout: served.schema.fingerprintLayout, bytesMax: bytesMax)
        }
    }

    /// Writes contacts; a zone that was removed has none.
    func keepContacts(_ contacts: [DeviceContact]) async throws {
        let zones = Dictionary(grouping: contacts, by: \.zone).sorted { $0.key < $1.key }
        try await writing { pg in
            for (zone, contacts) in zones { try ZoneConnection(pg, zone: zone).keepContacts(contacts) }
        }
    }

    /// Makes zones forget a device, with its notes and nonce; with `user`, only where the device is that user's.
    func forgetDevice(_ device: String, of user: String?, in zones: [String]) async throws {
        try await writing { pg in
            for zone in zones where !zone.utf8.contains(0) {
                try ZoneConnection(pg, zone: zone).forget(device: device, of: user)
            }
        }
    }

    /// Runs `body` on a connection, and sends the statements that it leaves waiting.
    private func writing(_ body: @escaping @Sendable (PostgresConnection) throws -> Void) async throws {
        try await throwingClientErrors { [self] in
            try await onLivingConnection { pg in
                do {
                    try body(pg)
                    try pg.flush()
                } catch {
                    pg.queued = []
                    throw error
                }
            }
        }
    }

    /// Answers a question in one read transaction, after the zone has absorbed what other programs have written.
    func read<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        for _ in 0..<Self.attemptsMax {
            if let answer = try await attempt(access, question) { return answer }
            // This follows altered tables as well.
            try await inTransaction(access.zone) { try $0.absorbOutsideChanges() }
        }
        throw Self.busy
    }

    /// Answers a question; nil if the zone must absorb changes first.
    private func attempt<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws
        -> Answer?
    {
        try await reading { pg, served in
            try pg.endingTransaction { try Self.answer(question, for: access, served: served, on: pg) }
        }
    }

    private static func answer<Answer>(
        _ question: ZoneQuestion<Answer>, for access: ZoneAccess, served: PostgresSchema, on pg: PostgresConnection
    ) throws -> Answer? {
        do {
            return try PostgresReader(pg, served, for: access).map { try question.ask($0) }
        } catch is TablesAltered { return nil } catch let failure as PostgresFailure
            where failure.isAboutAlteredTable
        { return nil } catch let
            failure as PostgresFailure where failure.state == "57014"
        {
            throw TidemarkError.queryTooCostly()
        }
    }
}
