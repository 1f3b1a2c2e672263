package import GRDB
import TidemarkCore

/// A comparison of the rows, within a sync or for its own sake.
extension SyncRound {
    /// The next question of a comparison that is under way and has all that is new.
    mutating func comparisonStep(_ db: Database) throws -> RowComparison.Question? {
        guard let comparison else { return nil }
        let file = try DeviceFile(db)
        guard ConfirmedRows(db: db, file: file).isComparable else {
            guard case .verify = purpose else {
                self.comparison = nil
                return nil
            }
            throw TidemarkError(
                .schemaMismatch,
                "This file's tables are others than the zone's, so their rows cannot be compared.",
                fix: "Migrate the side that is behind, sync, and verify then."
            )
        }
        guard !comparison.isBehind, !needsConfirmation, case .request = need else { return nil }
        try db.inTransaction(.immediate) {
            try lock.take(db)
            return .commit
        }
        return try comparison.next(db, boundaries: boundaries(), environment: environment)
    }

    /// Takes in what the server says about differing rows.
    package mutating func compared(_ answer: [UInt8], to question: RowComparison.Question, in db: Database) throws
        -> [SyncEvent]
    {
        guard !needsConfirmation else {
            let answer = try ComparisonAnswer(answer, to: question, file: DeviceFile(db), in: db)
            needsConfirmation = false
            consent = .confirmed(revision: answer.revision, fingerprint: answer.fingerprint ?? .none)
            return []
        }
        guard var comparison else { return [] }
        let events = try comparison.answered(
            answer,
            to: question,
            in: db,
            environment: environment,
            boundaries: boundaries()
        )
        self.comparison = comparison
        guard comparison.isDone else { return events }
        verification = comparison.report
        self.comparison = nil
        hasMismatch = false
        if case .verify(let isRepairing) = purpose {
            isEven = true
            if !isRepairing, verification?.records.isEmpty == false {
                try ConfirmedRows(db: db, file: DeviceFile(db)).requireCheck()
            }
            if !isRepairing { try noteUnsent(in: db) }
            try lock.release(db)
        }
        return events
    }

    /// Names the rows that neither the server nor the outbox knows; a repair has captured them
    /// before it compared.
    private mutating func noteUnsent(in db: Database) throws {
        let unsent = try UnsentRows(db: db, schema: DeviceFile(db).schema).find()
        let names = Set(unsent.map { [$0.table, $0.key] })
        verification?.records.removeAll { names.contains([$0.table, $0.key]) }
        verification?.records += unsent
    }
}
