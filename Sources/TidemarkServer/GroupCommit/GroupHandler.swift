public import TidemarkCore

/// Answers the requests of a group, one after another, in one transaction of the caller's.
///
/// The caller commits when this returns, once for all of them, and only then are the answers given
/// out; it rolls back when this throws, and then nobody of the group has an answer. So a crash
/// before the commit answers nobody, and whoever asks again finds either nothing done or the stored
/// verdict. Each request is in a savepoint of its own, each of its change sets in another one
/// inside: a request that is refused whole undoes only what it did itself.
public struct GroupHandler: Sendable {
    private let sync: SyncHandler
    private let comparison: ComparisonHandler
    private let answerBytesMax: Int

    /// Makes a handler with limits.
    public init(limits: Limits = .standard) {
        sync = SyncHandler(limits: limits)
        comparison = ComparisonHandler(limits: limits)
        answerBytesMax = limits.groupBytesMax
    }

    /// Answers a group in its order.
    ///
    /// - Returns: An answer or an error for each request, at least for the first; for fewer than
    ///   all when the answers have become large. The others did nothing and are in the next group.
    /// - Throws: What the transaction failed with as a whole. Nobody has an answer then.
    public func handle(
        _ group: [ZoneRequest],
        in transaction: some StoreTransaction
    ) throws -> [Result<ZoneAnswer, any Error>] {
        var (results, bytes) = ([Result<ZoneAnswer, any Error>](), 0)
        for request in group {
            if bytes >= answerBytesMax { break }
            let result = try transaction.isolated { try answer(request, in: transaction) }
            if case .success(let answer) = result { bytes += answer.body.count }
            results.append(result)
        }
        return results
    }

    /// Whether a transaction with these results has done anything: where all of a group were
    /// refused, it is rolled back, which costs no flush.
    public static func isWorthCommitting(_ results: [Result<ZoneAnswer, any Error>]) -> Bool {
        results.contains { if case .success = $0 { true } else { false } }
    }

    private func answer(
        _ request: ZoneRequest,
        in transaction: some StoreTransaction
    ) throws -> ZoneAnswer {
        switch request.kind {
        case .sync:
            let (text, tally) = try sync.answer(request.body, in: transaction)
            return ZoneAnswer(body: Array(text.utf8), tally: tally)
        case .fingerprints:
            return ZoneAnswer(
                body: Array(try comparison.handle(request.body, in: transaction).utf8)
            )
        }
    }
}
