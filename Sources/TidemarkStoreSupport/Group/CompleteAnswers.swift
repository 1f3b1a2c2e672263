import TidemarkCore
import TidemarkEngine

/// Completes answers whose change sets were not yet written.
extension GroupPlan {
    /// Replaces the placeholders of all answers.
    func complete(_ drafts: [Result<ZoneAnswer, any Error>], bytesMax: Int) throws -> [Result<ZoneAnswer, any Error>] {
        for bound in bounds {
            let bytes = bound.draftIndexes.map { bodies[$0].all.utf8.count }.reduce(0, +)
            guard bound.committedBytes + bytes <= bound.bytesMax else { throw GroupNeedsSerialExecution() }
        }
        var answers = [Result<ZoneAnswer, any Error>]()
        var bytes = 0
        for (index, draft) in drafts.enumerated() {
            // A group ends when its answers reach the limit.
            guard bytes < bytesMax else { throw GroupNeedsSerialExecution() }
            guard case .success(let answer) = draft else {
                answers.append(draft)
                continue
            }
            let answerWithBodies = try complete(answer, request: index + 1)
            bytes += answerWithBodies.body.count
            answers.append(.success(answerWithBodies))
        }
        return answers
    }

    /// Replaces the placeholders of one answer; `request` is the number of its request.
    private func complete(_ draft: ZoneAnswer, request: Int) throws -> ZoneAnswer {
        var body = draft.body
        if let revision = fingerprintRevisions[request] {
            guard let fingerprint = fingerprints[revision] else { throw GroupNeedsSerialExecution() }
            body = try Draft.fill(body, fingerprint: fingerprint)
        }
        return ZoneAnswer(
            body: try Draft.fill(body, bodies),
            tally: draft.tally,
            device: draft.device,
            revision: draft.revision
        )
    }

    /// Appends planned change sets to a catch-up of committed ones.
    mutating func extend(_ committed: CatchUp, to missed: MissedRevisions) throws -> CatchUp {
        guard !committed.hasMore, committed.revision < missed.through else { return committed }
        let limit = committed.bodies.isEmpty ? max(1, missed.limit) : missed.limit
        let start = Int(committed.revision - first)
        guard start >= 0 else { throw GroupNeedsSerialExecution() }
        let indexes = Array((start..<Int(missed.through - first)).prefix(max(0, limit - committed.bodies.count)))
        let bytes = committed.bodies.reduce(0) { $0 + $1.utf8.count }
        bounds.append(CatchUpBound(committedBytes: bytes, draftIndexes: indexes, bytesMax: missed.bytesMax))
        let end = committed.revision + Int64(indexes.count)
        return CatchUp(
            bodies: committed.bodies + indexes.map(Draft.all),
            revision: end,
            hasMore: end < missed.through
        )
    }
}
