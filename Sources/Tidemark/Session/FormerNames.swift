import GRDB

/// Former names of the public face: they stay for one release.
extension SyncEngine {
    /// Returns whether a record has changes that the server has not acknowledged, and that wait for no decision.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - key: The key in canonical JSON.
    /// - Returns: Whether the record has such changes.
    /// - Throws: As ``state(of:)``.
    @available(*, deprecated, renamed: "state(of:)", message: "state(of: RecordName(table, key)) says more")
    public func isPending(table: String, key: String) async throws -> Bool {
        switch try await state(of: RecordName(table, RecordKey(json: key))) {
        case .waiting, .sending, .failed: true
        case .synced, .conflict: false
        }
    }
}
