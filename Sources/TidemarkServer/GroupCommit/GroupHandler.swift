public import TidemarkCore

/// Answers the requests of a group, one after another, in one transaction of the caller's.
///
/// The caller commits when this returns, once for all of them, and only then are the answers given
/// out; it rolls back when this throws, and then nobody of the group has an answer. So a crash
/// before the commit answers nobody, and whoever asks again finds either nothing done or the stored
/// verdict. Each request is in a savepoint of its own, each of its change sets in another one
/// inside: a request that is refused whole undoes only what it did itself.
///
/// What is short is staged in one go, since a request with one small change set costs as many
/// statements there as one with a thousand. Where something is wrong with one of them, each is
/// staged by itself, and only that one is refused.
public struct GroupHandler: Sendable {
    /// The bounds on requests and answers.
    public let limits: Limits
    private let sync: SyncHandler
    private let comparison: ComparisonHandler
    /// Requests up to so many bytes are staged together.
    private static let shortBytesMax = 8 << 10

    /// Makes a handler with limits.
    public init(limits: Limits = .standard) {
        self.limits = limits
        sync = SyncHandler(limits: limits)
        comparison = ComparisonHandler(limits: limits)
    }

    /// Answers a group in its order.
    ///
    /// - Returns: An answer or an error for each request, at least for the first; for fewer than
    ///   all when the answers have become large. The others did nothing and are in the next group.
    /// - Throws: What the transaction failed with as a whole. Nobody has an answer then.
    public func handle(_ group: [ZoneRequest], in transaction: some StoreTransaction) throws -> [Result<
        ZoneAnswer, any Error
    >] {
        var results = [Result<ZoneAnswer, any Error>]()
        var bytes = 0
        for run in Self.runs(of: group) where bytes < limits.groupBytesMax {
            let staged = run.count > 1 ? try transaction.stage(together: run.map(\.body), limits: limits) : nil
            for (place, request) in run.enumerated() where bytes < limits.groupBytesMax {
                let result = try transaction.isolated { try answer(request, staged: staged?[place], in: transaction) }
                if case .success(let answer) = result { bytes += answer.body.count }
                results.append(result)
            }
        }
        return results
    }

    /// A group in parts that are staged in one go: short requests, one behind the other, or any
    /// other by itself.
    private static func runs(of group: [ZoneRequest]) -> [ArraySlice<ZoneRequest>] {
        let isShort = { (request: ZoneRequest) in request.kind == .sync && request.body.count <= shortBytesMax }
        var runs: [ArraySlice<ZoneRequest>] = []
        for (place, request) in group.enumerated() {
            if let last = runs.last, isShort(request), isShort(group[last.startIndex]) {
                runs[runs.count - 1] = group[last.startIndex...place]
            } else {
                runs.append(group[place...place])
            }
        }
        return runs
    }

    /// Whether a transaction with these results has done anything: where all of a group were
    /// refused, it is rolled back, which costs no flush.
    public static func isWorthCommitting(_ results: [Result<ZoneAnswer, any Error>]) -> Bool {
        results.contains { if case .success = $0 { true } else { false } }
    }

    private func answer(_ request: ZoneRequest, staged: SyncRequest?, in transaction: some StoreTransaction) throws
        -> ZoneAnswer
    {
        switch request.kind {
        case .sync:
            let staged = try staged ?? transaction.stage(request.body, limits: limits)
            let (text, tally) = try sync.answer(staged, in: transaction)
            return ZoneAnswer(body: Array(text.utf8), tally: tally)
        case .fingerprints: return ZoneAnswer(body: Array(try comparison.handle(request.body, in: transaction).utf8))
        }
    }
}
