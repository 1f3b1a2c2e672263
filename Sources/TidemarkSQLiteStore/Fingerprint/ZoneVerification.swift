import Foundation
import GRDB
public import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Whether a zone's rows are those that its commits made of them.
public struct ZoneVerification: Sendable {
    /// The zone's latest revision.
    public let revision: Int64
    /// The fingerprint that the commits added up to; nil while nobody has asked for one.
    public let expected: Fingerprint?
    /// The fingerprint of the rows.
    public let computed: Fingerprint

    /// Computes the fingerprint of a zone's file from its rows.
    ///
    /// - Parameters:
    ///   - path: The zone's file; it may be served meanwhile.
    ///   - repairing: Whether the rows as they are become what counts, so that devices that differ
    ///     take them over.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file is no zone, or `DatabaseError`.
    public init(path: String, repairing: Bool) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let file = try DatabaseQueue(path: path, configuration: configuration)
        self = try file.writeWithoutTransaction { db in
            var found: ZoneVerification?
            try db.inTransaction(.immediate) {
                found = try ZoneVerification(db, repairing: repairing)
                return repairing ? .commit : .rollback
            }
            guard let found else {
                throw TidemarkError(
                    .internalFailure,
                    "A transaction ended without a result.",
                    fix: "Please report this."
                )
            }
            return found
        }
    }

    private init(_ db: Database, repairing: Bool) throws {
        let unserved = try SchemaIntrospection.unserved(in: db)
        let schema = try SchemaIntrospection(db, excluding: unserved).validated()
        try EngineConnection.prepare(db, schema: schema)
        // Nothing here asks for the time.
        let zone = try ZoneTransaction(db, schema: schema, now: 0)
        revision = try zone.zone().revision
        expected = try zone.keptFingerprint(at: revision)
        let rows = RowFingerprints(db, schema: schema)
        // What other programs wrote is in no revision before the server takes it in.
        var outside = Fingerprint.none
        if let range = try ReduceCapture.pending(in: db) {
            try ReduceCapture.reduce(range, schema: schema, in: db)
            outside = try rows.reduced()
        }
        computed = try rows.all() - outside
        if repairing { try zone.keepFingerprint(computed, at: revision) }
    }
}
