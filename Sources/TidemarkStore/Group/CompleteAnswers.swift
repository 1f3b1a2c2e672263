import TidemarkCore
import TidemarkServer

/// Answers that were given before it was known what became of the change sets in them.
extension GroupPlan {
    /// The answers with all that was not known when they were made.
    func filled(_ drafts: [Result<ZoneAnswer, any Error>], bytesMax: Int) throws -> [Result<ZoneAnswer, any Error>] {
        for bound in bounds {
            let bytes = bound.drafted.map { bodies[$0].all.utf8.count }.reduce(0, +)
            guard bound.knownBytes + bytes <= bound.bytesMax else { throw NotPlain() }
        }
        var answers = [Result<ZoneAnswer, any Error>]()
        var bytes = 0
        for (index, draft) in drafts.enumerated() {
            // A group ends when its answers have become large.
            guard bytes < bytesMax else { throw NotPlain() }
            guard case .success(let answer) = draft else {
                answers.append(draft)
                continue
            }
            let completed = try filled(answer, number: index + 1)
            bytes += completed.body.count
            answers.append(.success(completed))
        }
        return answers
    }

    /// `number` is that of the request.
    private func filled(_ draft: ZoneAnswer, number: Int) throws -> ZoneAnswer {
        var body = draft.body
        if let revision = draftedFingerprints[number] {
            guard let fingerprint = fingerprints[revision] else { throw NotPlain() }
            body = try Draft.filled(body, fingerprint: fingerprint)
        }
        return ZoneAnswer(body: try Draft.filled(body, bodies), tally: draft.tally)
    }

    /// A catch-up with planned change sets behind the committed ones.
    mutating func caughtUp(_ committed: CatchUp, of missed: MissedRevisions) throws -> CatchUp {
        guard !committed.hasMore, committed.revision < missed.through else { return committed }
        let limit = committed.bodies.isEmpty ? max(1, missed.limit) : missed.limit
        let place = Int(committed.revision - first)
        guard place >= 0 else { throw NotPlain() }
        let drafted = Array((place..<Int(missed.through - first)).prefix(max(0, limit - committed.bodies.count)))
        let bytes = committed.bodies.reduce(0) { $0 + $1.utf8.count }
        bounds.append(CatchUpBound(knownBytes: bytes, drafted: drafted, bytesMax: missed.bytesMax))
        let reached = committed.revision + Int64(drafted.count)
        return CatchUp(
            bodies: committed.bodies + drafted.map(Draft.all),
            revision: reached,
            hasMore: reached < missed.through
        )
    }
}
