package import TidemarkCore

/// Reads requests without change sets, which need no schema.
package enum PullRequests {
    /// The most bytes of such a request.
    private static let bytesMax = 4_096
    private static let lap = Array(#""lap""#.utf8)
    private static let changeSets = Array(#""changeSets""#.utf8)
    private static let noChangeSets = Array(#""changeSets":[]"#.utf8)

    /// Reads a request; nil when it has change sets or a lap.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is refused.
    package static func read(_ body: [UInt8], limits: Limits) throws(TidemarkError) -> SyncRequest? {
        guard mayBePull(body) else { return nil }
        return try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) -> SyncRequest? in
            var reader = try JSONReader(bytes, depthMax: limits.jsonDepthMax)
            return try SyncRequest.readPull(&reader, limits: limits)
        }
    }

    /// Whether the bytes of a body may be a request without change sets and lap.
    ///
    /// Member names are unescaped, so a body without `"lap"` has no lap. If a client formats an
    /// empty `changeSets` differently, the store gives the same answer.
    private static func mayBePull(_ body: [UInt8]) -> Bool {
        body.count <= bytesMax && !body.contain(lap) && (body.contain(noChangeSets) || !body.contain(changeSets))
    }
}
