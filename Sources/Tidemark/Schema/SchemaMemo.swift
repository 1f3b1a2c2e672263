import Synchronization
import TidemarkCore

/// Caches the schemas read last.
///
/// A schema is a pure function of the statements that created the tables. Reading it takes longer than
/// most sync rounds.
enum SchemaMemo {
    private static let entryCountMax = 16
    private static let entries = Mutex<[[String?]: FileSchema]>([:])

    /// Returns the cached schema for `statements`, or calls `read` and caches the result.
    static func schema(for statements: [String?], read: () throws -> FileSchema) throws -> FileSchema {
        if let entry = entries.withLock({ $0[statements] }) { return entry }
        let schema = try read()
        entries.withLock { entries in
            if entries.count >= entryCountMax { entries.removeAll() }
            entries[statements] = schema
        }
        return schema
    }
}
