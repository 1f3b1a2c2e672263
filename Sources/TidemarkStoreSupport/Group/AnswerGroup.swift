import TidemarkCore
package import TidemarkEngine

/// Answers a group whose change sets are planned first and written together.
extension GroupHandler {
    /// Answers a group like ``handle(_:in:)``, but with few statements, if its requests allow it.
    ///
    /// - Returns: Nil when they do not. The caller then rolls back, and answers the requests one
    ///   after another.
    package func handle(_ group: [ZoneRequest], planning transaction: some PlannableTransaction) throws -> [Result<
        ZoneAnswer, any Error
    >]? {
        guard group.allSatisfy(Self.isPlannable) else { return nil }
        do {
            let planned = try PlannedTransaction(transaction)
            return try planned.finish(handle(group, in: planned), bytesMax: limits.groupBytesMax)
        } catch is GroupNeedsSerialExecution { return nil }
    }

    /// The most bytes of a planned request: staging a larger one twice would cost too much.
    private static let plannedBytesMax = 4 << 20

    private static func isPlannable(_ request: ZoneRequest) -> Bool { request.body.count <= plannedBytesMax }
}
