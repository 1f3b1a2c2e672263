import GRDB
import TidemarkCore
import TidemarkSQL

/// Checks that both sides hold the same in the end: a wrong result has no time.
enum Agreement {
    /// The content of a file's tables.
    static func digest(of path: String) throws -> ZoneDigest {
        var configuration = Configuration()
        configuration.readonly = true
        let file = try DatabaseQueue(path: path, configuration: configuration)
        let digest = try file.read { db in
            let schema = try SchemaIntrospection(db).makeSchema()
            return try Digest.compute(db, schema: schema, zone: "main", revision: 0)
        }
        try file.close()
        return digest
    }

    /// Requires that a file holds the server's rows: as many in each table, and the same.
    static func require(_ path: String, holds wanted: ZoneDigest) throws {
        let actual = try digest(of: path)
        try require(actual.tables == wanted.tables) {
            "the device has \(count(actual)) rows, the server \(count(wanted)), or others"
        }
    }

    /// Requires a condition of a result.
    static func require(_ isRight: Bool, _ otherwise: () -> String) throws(TidemarkError) {
        guard !isRight else { return }
        throw TidemarkError(
            .internalFailure, "The benchmark's result is wrong: \(otherwise()).",
            fix: "This is a defect, whatever the time was; please report it.")
    }

    private static func count(_ digest: ZoneDigest) -> Int { digest.tables.reduce(0) { $0 + $1.rows } }
}
