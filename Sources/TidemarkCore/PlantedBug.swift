// Defects that tests plant in the real code, to prove that the simulation detects them.
//
// They exist in debug builds only. In a release build `planted` is an inlined constant `false`, its
// argument is never evaluated, and `PlantedBug` has no bugs. So the binary contains neither a switch
// nor a name of a bug; `Scripts/seam.sh` checks this.

#if DEBUG
/// A planted defect, named after the wrong behaviour; `TidemarkSimulation` names the broken rule and the check.
package enum PlantedBug: String, CaseIterable, Sendable {
    // The server's decisions.
    case skipsBaseCheck, ignoresRecordBase, takesUnseenChildren, mergesSameColumn, overrulesOtherRecords
    case ignoresAfter, forgetsOwnCommits, evictsUniqueHolder, swapsWithoutParking
    case refusesEverything, mistakesForDeleted, mistakesForExisting, mistakesForOrphan, mistakesForReferenced,
        mistakesForUnique
    case lastArrivalWins, believesAnyTime, tellsNoLosers, takesEqualValuesForOneSum
    // The server's records and answers.
    case keepsEffectsOfRefused, keepsEffectsOfRefusedRequest, commitsWithoutDeletions, leavesCascadesOutOfLog
    case forgetsAcceptedVerdict, forgetsVerdictOfSums, forgetsRefusal, ignoresContentHash, skipsRevision, reusesIds
    case leavesChildrenOutOfTruth, countsRevisionThatDidNotFit, datesSnapshotBack
    case ignoresEpoch, keepsEpochWhenPutBack, believesAnyLap, forgetsHorizon
    case lendsPlacesTwice
    case swallowsRefusal, takesNamesTwice, answersBeforeFlush, believesAnyTag
    case restIgnoresIfMatch
    // A device's captures and requests.
    case capturesFirstEditOnly, missesEvictedRows, sendsWholeRow, forgetsDependencies
    case carriesOldFingerprint, believesItsBooks, deletesUnasked
    case takesBaseWhenSending, movesBaseWhenSending, thawsSentSets, dropsCreationsDeletedLater
    case cutsLongSets, splitsTransactions
    case sendsSumsAsValues
    case takesEmptyForNull, overlooksPartialIndexes, overlooksCompositeReferences
    // A device's handling of answers.
    case storesRevisionFirst, takesGaps, appliesLastRevisionOnly, coalescesDeletionAway
    case appliesOnTopOfEdits, forgetsToReplay, hidesWhatFits, capturesWhatItApplies
    case acknowledgesNewerEdits, forgetsSumsInReplay
    case keepsTemporaryIdsInOutbox, keepsTemporaryReferences
    case keepsLentIDsOfCopy, renumbersOntoRows, remakesOverUnseenRows, drawsFormerIDs
    case dropsIdMap, losesConflictRecords, parksAfterTransientError
    case dropsValuesInVain, forgetsTimesSeen, forgetsToOfferAgain, offersUnderNewIDs
    case dropsOutboxOnSnapshot, trustsSnapshot
    case dropsUncapturedEdits, parksEditsTwice, foldsChangedRows
    // A person's decision about a conflict.
    case retriesOverUnseenRows, retriesUnsetColumns, retriesDeletionOfUnseenChildren, replacesTakenRecords
    case renumbersLentIDs
    // A device's handling of schema changes.
    case fillsOverOwnValues, sendsOverUnseenValues, erasesUnknownColumns, dropsRenamedValues, losesOwnColumns,
        refusesFormerNames, forgetsRenamedValues
    case sendsSumsAsValuesAfterMigration, doublesRewrittenTables, parksWhatRebuildsEdit, takesRebuiltRowsForEdits
    // The exits of a server with users.
    case forgetsCaller, namesForeignZones, titlesOfAnybody, snapshotOfAnybody, eventsAfterLeaving, eventsBeforeLook
    case deviceOfAnybody, recallOfAnybody, invitationTwice, acceptsOldTokenTwice, logsValues, metricsByZone
    case dropsOutboxOnRevoke

    /// The planted bug of this thread, or of this task and its child tasks.
    @TaskLocal package static var current: PlantedBug?

    /// What a bug does where it is more than another decision; `TidemarkSimulation` has the deeds.
    package enum Deed: Sendable {
        /// Runs SQL on the connection that is at work.
        case runs(String)
        /// Names a rule as the reason of a refusal, whatever the true one is.
        case names(ConflictRule)
    }

    /// The deed of the planted bug; nil if it only decides otherwise.
    @TaskLocal package static var deed: Deed?

    /// Runs `body` with the bug planted in this thread or task only.
    package static func withPlanted<Result>(_ bug: PlantedBug?, doing deed: Deed? = nil, _ body: () throws -> Result)
        rethrows -> Result
    { try $current.withValue(bug) { try $deed.withValue(deed, operation: body) } }

    package static var isAnyPlanted: Bool { current != nil }
}

package func planted(_ bug: PlantedBug) -> Bool { PlantedBug.current == bug }

/// Returns the rule that the planted bug names as the reason of a refusal; without such a bug, the true one.
package func mistaken(_ rule: ConflictRule) -> ConflictRule {
    if case .names(let other) = PlantedBug.deed { other } else { rule }
}
#else
/// A stand-in without bugs: it accepts every name, and no code evaluates it.
@usableFromInline @dynamicMemberLookup package enum PlantedBug {
    case none

    @inlinable package static var isAnyPlanted: Bool { false }

    @inlinable package static subscript(dynamicMember name: StaticString) -> PlantedBug { .none }
}

@inlinable @inline(__always) package func planted(_ bug: @autoclosure () -> PlantedBug) -> Bool { false }

/// Does nothing; the function of a debug build is in `TidemarkSQL`, which knows connections.
@inlinable @inline(__always) package func runPlanted<Connection>(
    _ bug: @autoclosure () -> PlantedBug, in db: Connection
) throws {}

@inlinable @inline(__always) package func mistaken<Rule>(_ rule: Rule) -> Rule { rule }
#endif
