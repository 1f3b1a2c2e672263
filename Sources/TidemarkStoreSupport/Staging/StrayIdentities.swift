import GRDB
import TidemarkCore
import TidemarkSQL

/// Follows temporary ids of the reserved region into columns that are no declared references.
///
/// A generic relation, a log or a column without a foreign key holds a record's id as well. A device begins
/// its temporary ids at a random point of the reserved region, so such a number means nothing else there.
/// Small negative ids are followed in declared references only, because -1 may mean anything.
extension StagedRequest {
    /// Selects the values that may be temporary ids, and the requests of their change sets.
    ///
    /// A device negates temporary ids in keys and declared references only. In other columns they are as its
    /// file holds them, as integers or as whole texts.
    private static func strays(_ condition: String) -> String {
        """
        SELECT staged.rec, cell.col, \(list("staged.ord")) AS list, CAST(cell.value AS INTEGER) AS id
        FROM temp.tidemark_staged AS staged INDEXED BY tidemark_staged_by_set
        JOIN temp.tidemark_staged_cell AS cell ON cell.rec = staged.rec
        JOIN temp.tidemark_column AS known_column
            ON known_column.tbl = staged.tbl AND known_column.col = cell.col AND known_column.key_position IS NULL
        WHERE \(condition)
            AND CASE typeof(cell.value)
                WHEN 'integer' THEN cell.value BETWEEN \(TemporaryID.reservedMin) AND \(TemporaryID.reservedMax)
                WHEN 'text' THEN length(cell.value) = 16 AND cell.value NOT GLOB '*[^0-9]*'
                    AND cell.value BETWEEN '\(TemporaryID.reservedMin)' AND '\(TemporaryID.reservedMax)'
                END
        """
    }

    /// Returns the temporary ids in other columns than references, for each table that may have the record.
    func strayIdentities(from first: Int, to last: Int) throws -> [WantedIdentity] {
        let ids = try Int64.fetchAll(
            db.cachedStatement(sql: "SELECT DISTINCT id FROM (\(Self.strays("staged.ord BETWEEN ?1 AND ?2")))"),
            arguments: [first, last]
        )
        guard !ids.isEmpty else { return [] }
        return schema.tables.filter { $0.keyKind == .integer }.flatMap { table in
            ids.map { WantedIdentity(table: table.name, temporary: -$0) }
        }
    }

    /// Returns the requests that have such an id.
    static func requestsWithStrays(in db: Database) throws -> Set<Int> {
        try Int.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT list FROM (\(strays("true")))"))
    }

    /// Replaces the known ids in other columns than references; a text stays a text.
    func nameStrays(_ sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell
                SET value = iif(typeof(value) = 'text', CAST(stray.permanent AS TEXT), stray.permanent)
                FROM (
                    SELECT found.rec, found.col, id_map.permanent
                    FROM (\(Self.strays(sets.contains("staged.ord")))) AS found
                    JOIN temp.tidemark_given AS id_map
                        ON id_map.list = found.list AND id_map.temporary = -found.id
                ) AS stray
                WHERE tidemark_staged_cell.rec = stray.rec AND tidemark_staged_cell.col = stray.col
                """
        ).execute(arguments: [sets.number])
    }
}
