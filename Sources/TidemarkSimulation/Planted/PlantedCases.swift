#if DEBUG
import TidemarkCore

extension PlantedCase {
    /// Every bug that can be planted, by the rule that it breaks.
    ///
    /// Rule 8, who may read what, has none: there is no authentication yet. Nor have 17 and 19,
    /// fingerprints and mass deletion, which no world has yet.
    static let all: [PlantedCase] = [
        PlantedCase(.skipsBaseCheck, rule: 1, "B", seed: 1),
        PlantedCase(.ignoresRecordBase, rule: 1, "B", .oldBase),
        PlantedCase(.takesUnseenChildren, rule: 1, "D", seed: 9),
        PlantedCase(.mergesSameColumn, rule: 1, "B", seed: 1),
        PlantedCase(.sendsWholeRow, rule: 1, "D", seed: 1),
        PlantedCase(.leavesChildrenOutOfTruth, rule: 1, "C", seed: 2),
        PlantedCase(.commitsWithoutDeletions, rule: 2, "A", seed: 1),
        PlantedCase(.keepsEffectsOfRefused, rule: 2, "A", seed: 1),
        PlantedCase(.capturesFirstEditOnly, rule: 2, "C", seed: 1),
        PlantedCase(.forgetsAcceptedVerdict, rule: 3, "B", seed: 1),
        PlantedCase(.forgetsRefusal, rule: 3, "B", seed: 2),
        PlantedCase(.answersBeforeFlush, rule: 4, "A", .unflushed),
        PlantedCase(.ignoresAfter, rule: 5, "B", .tooEarly),
        PlantedCase(.forgetsDependencies, rule: 5, "C", .editedTwice),
        PlantedCase(.skipsRevision, rule: 6, "A", seed: 1),
        PlantedCase(.storesRevisionFirst, rule: 6, "C", seed: 1),
        PlantedCase(.appliesLastRevisionOnly, rule: 6, "B", seed: 1),
        PlantedCase(.countsRevisionThatDidNotFit, rule: 6, "B", seed: 1),
        PlantedCase(.takesGaps, rule: 6, "E", .gap),
        PlantedCase(.coalescesDeletionAway, rule: 6, "D", seed: 1),
        PlantedCase(.leavesCascadesOutOfLog, rule: 7, "D", seed: 2),
        PlantedCase(.keepsTemporaryReferences, rule: 7, "C", .playerInFlight),
        PlantedCase(.swallowsRefusal, rule: 9, "E", .half),
        PlantedCase(.dropsOutboxOnSnapshot, rule: 10, "C", .snapshotOverEdit),
        PlantedCase(.missesEvictedRows, rule: 10, "D", seed: 2),
        PlantedCase(.losesConflictRecords, rule: 11, "C", seed: 1),
        PlantedCase(.thawsSentSets, rule: 12, "C", seed: 1),
        PlantedCase(.dropsCreationsDeletedLater, rule: 12, "C", seed: 2),
        PlantedCase(.ignoresContentHash, rule: 13, "C", .reusedID),
        PlantedCase(.reusesIds, rule: 13, "C", seed: 1),
        PlantedCase(.keepsTemporaryIdsInOutbox, rule: 13, "C", seed: 5),
        PlantedCase(.dropsIdMap, rule: 13, "C", seed: 1),
        PlantedCase(.ignoresEpoch, rule: 14, "A", .otherEpoch),
        PlantedCase(.takesBaseWhenSending, rule: 15, "C", seed: 1),
        PlantedCase(.movesBaseWhenSending, rule: 15, "C", seed: 1),
        PlantedCase(.forgetsOwnCommits, rule: 16, "B", seed: 3),
        PlantedCase(.acknowledgesNewerEdits, rule: 16, "C", seed: 1),
        PlantedCase(.capturesWhatItApplies, rule: 16, "D", seed: 1),
        PlantedCase(.appliesOnTopOfEdits, rule: 16, "D", seed: 1),
        PlantedCase(.forgetsToReplay, rule: 16, "D", seed: 1),
        PlantedCase(.evictsUniqueHolder, rule: 18, "D", seed: 5),
        PlantedCase(.swapsWithoutParking, rule: 18, "D", seed: 2),
        PlantedCase(.parksAfterTransientError, rule: 20, "C", seed: 1),
        PlantedCase(.takesNamesTwice, rule: 21, "E", .nameTwice),
        PlantedCase(.trustsSnapshot, rule: 22, "E", .activeSnapshot),
        PlantedCase(.datesSnapshotBack, rule: 22, "D", seed: 1),
    ]
}
#endif
