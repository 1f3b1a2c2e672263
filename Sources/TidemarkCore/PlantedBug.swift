// Defects that tests plant in the real code, to prove that the simulation would notice them.
//
// The seam is for debug builds. In a release build `planted` is the constant `false`, inlined where
// it is asked, its argument is never made, and `PlantedBug` has no cases: neither a switch nor the
// name of a bug is left in the binary, as `Scripts/seam.sh` shows.

#if DEBUG
/// A defect that the code has while it is planted.
///
/// A case's name says what the code does wrong. What rule it breaks, and what notices it, stands
/// in `TidemarkSimulation`.
package enum PlantedBug: String, CaseIterable, Sendable {
    // What the server decides.
    case skipsBaseCheck, ignoresRecordBase, takesUnseenChildren, mergesSameColumn
    case ignoresAfter, forgetsOwnCommits, evictsUniqueHolder, swapsWithoutParking
    case refusesEverything, mistakesForDeleted, mistakesForExisting, mistakesForOrphan, mistakesForReferenced,
        mistakesForUnique
    case lastArrivalWins, believesAnyTime, tellsNoLosers
    // What it keeps and answers.
    case keepsEffectsOfRefused, keepsEffectsOfRefusedRequest, commitsWithoutDeletions, leavesCascadesOutOfLog
    case forgetsAcceptedVerdict, forgetsRefusal, ignoresContentHash, skipsRevision, reusesIds
    case leavesChildrenOutOfTruth, countsRevisionThatDidNotFit, datesSnapshotBack
    case ignoresEpoch, keepsEpochWhenPutBack, believesAnyLap, forgetsHorizon
    case swallowsRefusal, takesNamesTwice, answersBeforeFlush, believesAnyTag
    // What a device captures and sends.
    case capturesFirstEditOnly, missesEvictedRows, sendsWholeRow, forgetsDependencies
    case carriesOldFingerprint, believesItsBooks, deletesUnasked
    case takesBaseWhenSending, movesBaseWhenSending, thawsSentSets, dropsCreationsDeletedLater
    case cutsLongSets, splitsTransactions
    case takesEmptyForNull, overlooksPartialIndexes, overlooksCompositeReferences
    // What it takes in.
    case storesRevisionFirst, takesGaps, appliesLastRevisionOnly, coalescesDeletionAway
    case appliesOnTopOfEdits, forgetsToReplay, hidesWhatFits, capturesWhatItApplies
    case acknowledgesNewerEdits
    case keepsTemporaryIdsInOutbox, keepsTemporaryReferences
    case dropsIdMap, losesConflictRecords, parksAfterTransientError
    case dropsValuesInVain, forgetsTimesSeen, forgetsToOfferAgain
    case dropsOutboxOnSnapshot, trustsSnapshot
    // What it does when tables change.
    case fillsOverOwnValues, sendsOverUnseenValues, erasesUnknownColumns, dropsRenamedValues, losesOwnColumns,
        refusesFormerNames, forgetsRenamedValues

    @TaskLocal private static var current: PlantedBug?

    /// Runs `body`, in this thread or task and no other, with the bug in the code.
    package static func withPlanted<Result>(_ bug: PlantedBug?, _ body: () throws -> Result) rethrows -> Result {
        try $current.withValue(bug, operation: body)
    }

    fileprivate var isPlanted: Bool { PlantedBug.current == self }

    /// Whether the code has any bug now.
    package static var isAnyPlanted: Bool { current != nil }
}

/// Whether the code has the bug now.
package func planted(_ bug: PlantedBug) -> Bool { bug.isPlanted }
#else
/// No bug at all: any name is one, and none is ever looked at.
@usableFromInline @dynamicMemberLookup package enum PlantedBug {
    case none

    /// `false`.
    @inlinable package static var isAnyPlanted: Bool { false }

    @inlinable package static subscript(dynamicMember name: StaticString) -> PlantedBug { .none }
}

/// `false`.
@inlinable @inline(__always) package func planted(_ bug: @autoclosure () -> PlantedBug) -> Bool { false }
#endif
