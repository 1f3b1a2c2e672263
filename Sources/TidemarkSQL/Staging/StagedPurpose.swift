/// What a device stages a change set of its own for: each purpose has a range of numbers.
///
/// The staging tables distinguish change sets by one integer, `ord`. The change sets of a message count from 0
/// (``ChangeSetStaging``). A device also stages change sets that no message has, beside those of the answer that
/// it applies. Their numbers are negative: the purpose is in the upper bits, a count in the lower 40.
package enum StagedPurpose: Int, CaseIterable, Sendable {
    /// The coalesced change sets of an answer.
    case answer = 1
    /// The bases that rewind the pending edits.
    case rewind
    /// The coalesced outbox, replayed on top of the server's rows.
    case replay
    /// One change set of the outbox, replayed alone.
    case replayAlone
    /// One change set of the outbox before it is coalesced.
    case replayPart
    /// A change set that the device offers again after a restore.
    case offered
    /// The rows that offered change sets had replaced.
    case offeredRestore
    case deltaPresent
    case deltaDeleted
    /// Values of columns that the file's tables gain.
    case columns
    /// Rows of tables that the device adopts.
    case adoption
    /// Values of columns that only this file has.
    case unserved
    /// Records that a person decided about.
    case decision
    /// Rows that are being staged, which get their number afterwards, so that statements are prepared once.
    case arriving

    /// The number of the purpose's change set with an index.
    package func number(_ index: Int = 0) -> Int { index - rawValue << 40 }

    /// The number of the purpose's only change set.
    package var ord: Int { number() }
}
