package import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// Reads requests that may bring nothing, apart from any zone's connection.
package final class PullRequests: Sendable {
    /// More bytes than a request has that only asks.
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

    /// Reads a request; nil when it brings something.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is refused.
    func read(_ body: [UInt8]) async throws -> SyncRequest? {
        guard Self.mayOnlyAsk(body) else { return nil }
        let limits = limits
        return try await json.read { try Self.read(body, limits: limits, in: $0) }
    }

    /// The same on a connection of the caller's.
    package static func read(_ body: [UInt8], limits: Limits, in db: Database) throws -> SyncRequest? {
        guard mayOnlyAsk(body) else { return nil }
        _ = try JSONScan(body, limits: limits)
        let envelope = try RequestEnvelope(body, limits: limits, in: db)
        return envelope.changeSets == "[]" ? try envelope.request(bringing: []) : nil
    }

    /// Names are written plainly, so whatever has no `"lap"` in it has no lap.
    ///
    /// Who brings nothing but writes that otherwise is answered by the store, which comes to the
    /// same.
    private static func mayOnlyAsk(_ body: [UInt8]) -> Bool {
        body.count <= bytesMax && !body.contain(lap) && (body.contain(noChangeSets) || !body.contain(changeSets))
    }
}
