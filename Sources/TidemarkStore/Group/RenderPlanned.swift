import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// What became of the change sets of a segment, each by itself: a few statements for all of them.
///
/// Each record in `temp.tidemark_reduced` is that of the change set which names it.
extension StagedRequest {
    /// Whether two change sets of a segment name one record.
    func namesTwice(_ segment: StagedSets) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM temp.tidemark_staged WHERE \(segment.contains("ord"))
                        GROUP BY tbl, key HAVING count(*) > 1)
                    """
            ),
            arguments: [segment.number]
        ) ?? false
    }

    /// Whether nothing happened but to records that change sets name, and what they say.
    ///
    /// No record is named twice, so it is enough to count.
    func isAsNamed(_ segment: StagedSets) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT count(*) FROM temp.tidemark_reduced) = (
                        SELECT count(*) FROM temp.tidemark_staged AS s
                            CROSS JOIN temp.tidemark_reduced AS r ON r.tbl = s.tbl AND r.key = s.key
                        WHERE \(segment.contains("s.ord")) AND r.operation = s.operation)
                    """
            ),
            arguments: [segment.number]
        ) ?? false
    }

    /// The change sets of a segment, in their order, as they are kept and sent.
    func bodies(of planned: [GroupPlan.Planned], _ segment: StagedSets) throws -> [GroupPlan.Body] {
        let all = try parts(segment, reducedSQL)
        let new = try parts(segment, givenSQL)
        let changed = try changedSets(segment)
        return planned.map { change in
            let envelope = AnswerEnvelope(
                id: change.envelope.id,
                revision: change.revision,
                time: schema.needsTimes ? change.stamp.time : nil
            ).members
            let ord = change.envelope.ord
            return GroupPlan.Body(
                all: ChangeSetJSON.text(envelope, all[ord, default: []]),
                ids: ChangeSetJSON.text(envelope, new[ord, default: []]),
                isAsSent: !changed.contains(ord)
            )
        }
    }

    /// By change set, its part of each table in which a query finds records of it.
    private func parts(_ segment: StagedSets, _ sql: (SyncedTable) -> String) throws -> [Int: [ChangeSetJSON.Part]] {
        try touchedTables(segment).reduce(into: [:]) { parts, table in
            let sets = "temp.tidemark_planned AS p WHERE p.segment = ?"
            let found = try ChangeSetJSON.parts(table, sql(table), of: sets, [segment.number], in: db)
            for (ord, part) in found { parts[ord, default: []].append(part) }
        }
    }

    /// What change set `p.ord` of a segment did to a table.
    private func reducedSQL(_ table: SyncedTable) -> String {
        """
        SELECT r.key, r.operation, CASE WHEN r.operation <> 'delete'
            THEN '"revision":' || p.revision || \(members("r.attributes")) END AS members
        FROM temp.tidemark_staged AS s INDEXED BY tidemark_staged_by_set
            CROSS JOIN temp.tidemark_reduced AS r ON r.tbl = s.tbl AND r.key = s.key
        WHERE s.ord = p.ord AND s.tbl = \(SQLText.literal(table.name))
        """
    }

    /// The records of a table that change set `p.ord` of a segment named by temporary ids.
    private func givenSQL(_ table: SyncedTable) -> String {
        """
        SELECT key, operation, '"__oldId__":' || old_key AS members FROM temp.tidemark_staged
        WHERE ord = p.ord AND tbl = \(SQLText.literal(table.name))
            AND operation <> 'delete' AND old_key IS NOT NULL
        """
    }
}
