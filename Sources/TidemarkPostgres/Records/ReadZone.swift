import TidemarkCore
import TidemarkEngine

/// Reads for clients without rows: they take no lock, and run beside commits.
extension ZoneConnections {
    /// Answers a question in one read transaction, after the zone has absorbed what other programs have written.
    func read<Answer: Sendable>(_ zone: String, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        for _ in 0..<Self.attemptsMax {
            if let answer = try await attempt(zone, question) { return answer }
            // This follows altered tables as well.
            try await inTransaction(zone) { try $0.absorbOutsideChanges() }
        }
        throw Self.busy
    }

    /// Answers a question; nil if the zone must absorb changes first.
    private func attempt<Answer: Sendable>(_ zone: String, _ question: ZoneQuestion<Answer>) async throws -> Answer? {
        try await reading { pg, served in
            let answer = Result { try Self.answer(question, about: zone, served: served, on: pg) }
            if pg.isUsable, pg.isInTransaction { try pg.rollback() }
            return try answer.get()
        }
    }

    private static func answer<Answer>(
        _ question: ZoneQuestion<Answer>,
        about zone: String,
        served: PostgresSchema,
        on pg: PostgresConnection
    ) throws -> Answer? {
        do {
            return try PostgresReader(pg, served, zone: zone).map { try question.ask($0) }
        } catch is TablesAltered { return nil } catch let failure as PostgresFailure
            where failure.isAboutAlteredTable
        { return nil } catch let
            failure as PostgresFailure where failure.state == "57014"
        {
            throw TidemarkError(
                .queryTooCostly,
                "The query ran for longer than \(ZoneReaderLimits.millisecondsMax / 1_000) s.",
                fix: "Ask for less at once."
            )
        }
    }
}
