import GRDB
import TidemarkCore
import TidemarkSQL

/// Applies verdicts on pending change sets while the tables hold a snapshot's rows.
///
/// The server may have committed a change set whose answer got lost; then the snapshot contains its
/// rows. Without the verdict, each new record would exist twice until the next answer, under its
/// temporary and its permanent id. A user who deleted one copy would delete the record.
struct LateVerdicts {
    let round: RoundContext
    let header: SnapshotFormat.Header
    let recall: Recall

    /// Settles the change sets that the snapshot contains; others get their verdict with the next answer.
    func settle() throws -> [DeviceEvent] { try settle(through: header.revision) }
    /// Settles all change sets with a verdict; used if the snapshot is of another history.
    func settleAll() throws -> [DeviceEvent] { try settle(through: nil) }

    private func settle(through revision: Int64?) throws -> [DeviceEvent] {
        try Array(recall.changeSets.utf8).withUnsafeBufferPointer { bytes in
            let reader: JSONReader
            do throws(TidemarkError) { reader = try JSONReader(bytes) } catch {
                throw Answer.inapplicable(error.message, place: error.place)
            }
            var answered = try Answered(
                AnsweredSet.read(reader, round.schema), through: revision ?? .max, round.schema, in: round.db)
            if revision != nil { answered.forgetRefused() }
            let count = answered.accepted.count
            return try (count == 0 ? [] : [.sent(changeSets: count)])
                + SettleVerdicts(round: round, unchangedIDs: recall.unchangedIDs).settle(answered, epoch: header.epoch)
        }
    }
}
