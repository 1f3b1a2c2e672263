import Synchronization
import TidemarkCore

/// Remembers the schemas that were read last.
///
/// A schema is a pure function of the statements that made the tables, and reading it takes longer
/// than most rounds of a sync.
enum SchemaMemo {
    private static let entryCountMax = 16
    private static let entries = Mutex<[[String?]: FileSchema]>([:])

    /// The schema that stands under `statements`, read by `read` when it is not there.
    static func schema(for statements: [String?], read: () throws -> FileSchema) throws -> FileSchema {
        if let known = entries.withLock({ $0[statements] }) { return known }
        let schema = try read()
        entries.withLock { entries in
            if entries.count >= entryCountMax { entries.removeAll() }
            entries[statements] = schema
        }
        return schema
    }
}
