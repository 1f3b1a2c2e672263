package import TidemarkCore

/// Answers the requests of a group, one after another, in one transaction of the caller.
///
/// The caller commits once when this returns, and sends the answers after the commit. It rolls back
/// when this throws, and then no request of the group has an answer. So after a crash before the
/// commit, a retry finds either no effect or the stored verdict. Each request runs in its own
/// savepoint, and each of its change sets in a nested one. A refused request undoes only its own
/// effects.
///
/// Short requests are staged together, because staging costs the same number of statements for one
/// change set as for a thousand. If one of them is faulty, each is staged by itself, and only the
/// faulty one is refused.
package struct GroupHandler: Sendable {
    /// The bounds on requests and answers.
    package let limits: Limits
    private let sync: SyncHandler
    private let comparison: ComparisonHandler
    /// The most bytes of a request that is staged together with others.
    private static let shortBytesMax = 8 << 10

    /// Makes a handler with limits.
    package init(limits: Limits = .standard) {
        self.limits = limits
        sync = SyncHandler(limits: limits)
        comparison = ComparisonHandler(limits: limits)
    }

    /// Answers a group in its order.
    ///
    /// - Returns: An answer or an error for each request. When the answers reach the byte limit, the
    ///   remaining requests have no effect and no result; they join the next group.
    /// - Throws: The error that failed the whole transaction. No request has an answer then.
    package func handle(_ group: [ZoneRequest], in transaction: some StoreTransaction) throws -> [Result<
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

    /// Splits a group into runs of short requests; each long request is a run of its own.
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

    /// Whether a transaction with these results has any effect.
    ///
    /// If every request was refused, the caller rolls back, which needs no flush.
    package static func isWorthCommitting(_ results: [Result<ZoneAnswer, any Error>]) -> Bool {
        results.contains { if case .success = $0 { true } else { false } }
    }

    private func answer(_ request: ZoneRequest, staged: SyncRequest?, in transaction: some StoreTransaction) throws
        -> ZoneAnswer
    {
        switch request.kind {
        case .sync:
            let staged = try staged ?? transaction.stage(request.body, limits: limits)
            return try sync.answer(staged, from: request.access, in: transaction)
        case .fingerprints: return ZoneAnswer(body: Array(try comparison.handle(request.body, in: transaction).utf8))
        }
    }
}
