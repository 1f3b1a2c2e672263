import TidemarkCore
package import TidemarkServer

/// A group that is written together.
extension GroupHandler {
    /// Answers a group as ``handle(_:in:)`` does, with few statements, if its requests allow it.
    ///
    /// - Returns: Nil when they do not. Then the caller undoes what the transaction has done, and
    ///   has them answered one after another.
    package func handle(_ group: [ZoneRequest], planning transaction: some PlannableTransaction) throws -> [Result<
        ZoneAnswer, any Error
    >]? {
        guard group.allSatisfy(Self.isPlannable) else { return nil }
        do {
            let planned = try PlannedTransaction(transaction)
            return try planned.finish(handle(group, in: planned), bytesMax: limits.groupBytesMax)
        } catch is NotPlain { return nil }
    }

    /// What is large costs what its rows cost, and would be staged twice if a plan did not do.
    private static func isPlannable(_ request: ZoneRequest) -> Bool { request.body.count <= 4 << 20 }
}
