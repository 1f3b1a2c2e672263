import TidemarkCore

/// What a sync is for.
package enum SyncPurpose: Sendable {
    /// To send pending change sets and apply newer revisions.
    case sync(acceptingMassDeletion: Bool)
    /// To compare all rows with the server's.
    case verify(repairing: Bool)
}

/// What ``SyncMachine`` is told.
extension SyncMachine {
    /// What a step reads of the file.
    struct FileFacts: Hashable, Sendable {
        let state: FileState
        let revision: Int64
        /// Whether a snapshot has to replace the rows.
        let needsSnapshot: Bool
        /// The zone's tables, compared with the file's.
        let tables: Tables
        let rebuilt: CompareRebuilt.Waiting
    }

    enum Tables: Hashable, Sendable {
        case zones
        case others
        /// The tables cannot sync with the zone's as the file knows them.
        case unfit
    }

    /// The request, or another step, that met an error.
    enum Cause: Sendable {
        /// With whether its answer would still be applied.
        case request(DeviceCore.Outgoing, isOpen: Bool)
        case history(HistoryQuestion)
        case other
    }

    enum Event: Sendable {
        /// A step begins.
        case file(FileFacts)
        /// The file has change sets whose verdicts may be lost.
        case unanswered
        /// An answer was applied; `made`: new change sets wait, because records got other numbers.
        case answered(ApplyResult, sent: Int, made: Bool)
        case suspected(MassDeletion)
        case confirmed(revision: Int64, Fingerprint)
        case recalled(Recall)
        case questioned(RowComparison)
        case compared(RowComparison, RowComparison.Footing)
        case tookSnapshot(ApplyResult.Outcome)
        case keptRows(KeptRows)
        /// The kept rows are not of the file's revision any more.
        case lostKeptRows
        case comparedRebuilt
        /// The zone has changed before rebuilt tables could be compared.
        case outdatedRows(CompareRebuilt.Waiting)
        case tookSchema
        /// The app's functions have merged conflicts, which wait to be sent.
        case merged
        /// A step failed, in a file at a revision.
        case failed(TidemarkError, Cause, at: Int64)
        case left(TidemarkError)
    }
}

/// What it says.
extension SyncMachine {
    enum Action: Sendable {
        // Steps with the server.
        case exchange
        case recall
        /// With whether a delta suffices.
        case fetchSnapshot(asDelta: Bool)
        case fetchRows
        case fetchSchema
        case confirm
        case compare(RowComparison)
        /// The next step begins.
        case proceed
        case finish
        case fail(TidemarkError)
        // Reactions to an error, in the file.
        /// Notes that the server does not tell a record's history.
        case giveUp(HistoryQuestion)
        /// Divides a change set that is too large, or parks it.
        case divide(TidemarkError)
        case park(TidemarkError)
        /// Makes an outbox fit to be sent that the device itself refuses to send.
        case mend(TidemarkError)
        case renewIdentity
        case leave(TidemarkError)
        /// Ends the sync if SQLite finds damage, which can make a correct answer inapplicable.
        case checkFile
        /// Has a snapshot replace the rows of rebuilt tables.
        case replaceRows
    }
}
