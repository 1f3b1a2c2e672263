package import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Parses requests without change sets, on a connection of its own.
package final class PullRequests: Sendable {
    /// The most bytes of such a request.
    private static let bytesMax = 4_096
    private static let lap = Array(#""lap""#.utf8)
    private static let changeSets = Array(#""changeSets""#.utf8)
    private static let noChangeSets = Array(#""changeSets":[]"#.utf8)

    private let json: DatabaseQueue
    private let limits: Limits

    init(limits: Limits) throws {
        var configuration = Configuration()
        configuration.label = "tidemark.requests"
        json = try DatabaseQueue(configuration: configuration)
        self.limits = limits
    }

    /// Parses a request; nil when it has change sets or a lap.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is refused.
    func read(_ body: [UInt8]) async throws -> SyncRequest? {
        guard Self.mayBePull(body) else { return nil }
        let limits = limits
        return try await json.read { try Self.read(body, limits: limits, in: $0) }
    }

    /// Parses a request on a connection of the caller.
    package static func read(_ body: [UInt8], limits: Limits, in db: Database) throws -> SyncRequest? {
        guard mayBePull(body) else { return nil }
        _ = try JSONScan(body, limits: limits)
        let envelope = try RequestEnvelope(body, limits: limits, in: db)
        return envelope.changeSets == "[]" ? try envelope.request(bringing: []) : nil
    }

    /// Whether the bytes of a body may be a request without change sets and lap.
    ///
    /// Member names are unescaped, so a body without `"lap"` has no lap. If a client formats an
    /// empty `changeSets` differently, the store gives the same answer.
    private static func mayBePull(_ body: [UInt8]) -> Bool {
        body.count <= bytesMax && !body.contain(lap) && (body.contain(noChangeSets) || !body.contain(changeSets))
    }
}
