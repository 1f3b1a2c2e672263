package import GRDB
import TidemarkCore

/// The comparison of rows, within a sync or by ``SyncEngine/verify(repairing:)``.
extension SyncRound {
    /// Returns the next request of a running comparison; nil if the file is not up to date yet.
    mutating func comparisonStep(_ db: Database) throws -> RowComparison.Question? {
        guard var comparison else { return nil }
        let file = try DeviceFile(db)
        // Rebuilt tables are compared first.
        guard file.rebuilt == nil else { return nil }
        guard ConfirmedRows(db: db, file: file).isComparable else {
            guard case .verify = purpose else {
                self.comparison = nil
                return nil
            }
            throw TidemarkError(
                .schemaMismatch, "This file's tables are others than the zone's, so their rows cannot be compared.",
                fix: "Migrate the side that is behind, sync, and verify then.")
        }
        guard !comparison.isBehind, !needsConfirmation, case .request = need else { return nil }
        try db.inTransaction(.immediate) {
            try lock.take(db)
            return .commit
        }
        let question = try comparison.next(db, boundaries: boundaries(), environment: environment)
        self.comparison = comparison
        return question
    }

    package mutating func applyComparison(_ answer: [UInt8], to question: RowComparison.Question, in db: Database)
        throws -> [DeviceEvent]
    {
        guard !needsConfirmation else {
            let answer = try ComparisonAnswer(answer, to: question, file: DeviceFile(db), in: db)
            needsConfirmation = false
            consent = .confirmed(revision: answer.revision, fingerprint: answer.fingerprint ?? .none)
            return []
        }
        guard var comparison else { return [] }
        let events = try comparison.apply(
            answer, to: question, in: db, environment: environment, boundaries: boundaries())
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
            if !isRepairing { try reportUnsent(in: db) }
            try lock.release(db)
        }
        return events
    }

    /// Adds the rows that neither server nor outbox has; a repair has captured them before the comparison instead.
    private mutating func reportUnsent(in db: Database) throws {
        let unsent = try UnsentRows(db: db, schema: DeviceFile(db).schema).find()
        let names = Set(unsent.map { [$0.table, $0.key] })
        verification?.records.removeAll { names.contains([$0.table, $0.key]) }
        verification?.records += unsent
    }
}
