import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Renders the change sets of a segment with a few statements for all of them.
///
/// Each record in `temp.tidemark_reduced` belongs to the change set that names it.
extension StagedRequest {
    /// Whether two change sets of a segment name one record.
    func namesTwice(_ segment: StagedSets) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1
                        FROM temp.tidemark_staged
                        WHERE \(segment.contains("ord"))
                        GROUP BY tbl, key
                        HAVING count(*) > 1)
                    """
            ),
            arguments: [segment.number]
        ) ?? false
    }

    /// Whether the segment changed exactly the named records by the named operations.
    ///
    /// No record is named twice, so the counts decide.
    func isAsNamed(_ segment: StagedSets) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT count(*) FROM temp.tidemark_reduced) = (
                        SELECT count(*)
                        FROM temp.tidemark_staged AS staged
                        CROSS JOIN temp.tidemark_reduced AS reduced
                            ON reduced.tbl = staged.tbl AND reduced.key = staged.key
                        WHERE \(segment.contains("staged.ord")) AND reduced.operation = staged.operation)
                    """
            ),
            arguments: [segment.number]
        ) ?? false
    }

    /// Renders the change sets of a segment, in their order, as they are stored and sent.
    func bodies(of changeSets: [GroupPlan.PlannedChangeSet], _ segment: StagedSets) throws -> [GroupPlan.Body] {
        let allParts = try parts(segment, effectSQL)
        let idParts = try parts(segment, newIdsSQL)
        let changedSets = try changedSets(segment)
        return changeSets.map { changeSet in
            let envelope = AnswerEnvelope(
                id: changeSet.envelope.id,
                revision: changeSet.revision,
                time: schema.needsTimes ? changeSet.stamp.time : nil
            ).members
            let ord = changeSet.envelope.ord
            return GroupPlan.Body(
                all: ChangeSetJSON.text(envelope, allParts[ord, default: []]),
                ids: ChangeSetJSON.text(envelope, idParts[ord, default: []]),
                isAsSent: !changedSets.contains(ord)
            )
        }
    }

    /// Renders each change set's part of each table from the records that a query finds.
    private func parts(_ segment: StagedSets, _ sql: (SyncedTable) -> String) throws -> [Int: [ChangeSetJSON.Part]] {
        try touchedTables(segment).reduce(into: [:]) { parts, table in
            let sets = "temp.tidemark_planned AS p WHERE p.segment = ?"
            let tableParts = try ChangeSetJSON.parts(
                table,
                sql: sql(table),
                of: sets,
                arguments: [segment.number],
                in: db
            )
            for (ord, part) in tableParts { parts[ord, default: []].append(part) }
        }
    }

    /// The records of a table that change set `p.ord` of a segment changed.
    private func effectSQL(_ table: SyncedTable) -> String {
        """
        SELECT reduced.key, reduced.operation, CASE WHEN reduced.operation <> 'delete'
            THEN '"revision":' || p.revision || \(members("reduced.attributes")) END AS members
        FROM temp.tidemark_staged AS staged INDEXED BY tidemark_staged_by_set
        CROSS JOIN temp.tidemark_reduced AS reduced
            ON reduced.tbl = staged.tbl AND reduced.key = staged.key
        WHERE staged.ord = p.ord AND staged.tbl = \(SQLText.literal(table.name))
        """
    }

    /// The records of a table with temporary ids in change set `p.ord` of a segment.
    private func newIdsSQL(_ table: SyncedTable) -> String {
        """
        SELECT key, operation, '"__oldId__":' || old_key AS members
        FROM temp.tidemark_staged
        WHERE ord = p.ord AND tbl = \(SQLText.literal(table.name))
            AND operation <> 'delete' AND old_key IS NOT NULL
        """
    }
}
