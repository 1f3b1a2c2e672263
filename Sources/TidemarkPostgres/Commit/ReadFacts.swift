import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// What a commit asks of the zone's rows and log: a statement a table, all in one round trip.
extension PostgresTransaction {
    var hasFarEffects: Bool { served.hasTriggers }

    // MARK: Changes of others

    func contended(_ changes: [Int: BasedChange]) throws -> [Int: ContendedRecord] {
        var statements: [PostgresStatement] = []
        let indexes = changes.keys.sorted()
        for (place, indexes) in Dictionary(grouping: indexes, by: { changes[$0]?.name.table ?? 0 }).sorted(by: {
            $0.key < $1.key
        }) {
            let table = try table(place)
            var sent = SentRows(table)
            let changes = indexes.compactMap { changes[$0] }
            for change in changes { try sent.begin(key: change.name.key) }
            statements.append(
                PostgresStatement(
                    Self.contendedSQL(table, sent),
                    [
                        zone, PostgresArray.numbers(indexes.map(Int64.init)),
                        PostgresArray.numbers(changes.map(\.base)),
                        PostgresArray.quoted(changes.map(\.operation.rawValue)),
                        PostgresArray.quoted(changes.map(\.name.key)),
                    ] + sent.parameters()
                )
            )
        }
        guard !statements.isEmpty else { return [:] }
        var found: [Int: (exists: Bool, row: [Value]?)] = [:]
        for rows in try pg.run(statements) {
            for row in rows.map({ $0 }) {
                let index = Int(row.integer(0) ?? 0)
                guard let name = changes[index]?.name else { continue }
                let image = try row[2].map { try schema.layouts[name.table].row(key: name.key, object: $0) }
                found[index] = (row.isTrue(1), image)
            }
        }
        guard !found.isEmpty else { return [:] }
        let entries = try entries(found.keys.sorted().compactMap { index in changes[index].map { (index, $0) } })
        return found.reduce(into: [:]) { contended, found in
            contended[found.key] = ContendedRecord(
                exists: found.value.exists,
                row: found.value.row,
                changes: entries[found.key] ?? []
            )
        }
    }

    private static func contendedSQL(_ table: PostgresTable, _ sent: SentRows) -> String {
        """
        SELECT change.number, app_row.tableoid IS NOT NULL,
            CASE WHEN app_row.tableoid IS NOT NULL AND change.operation <> 'delete'
                THEN \(table.rowJSON("app_row")) END
        FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[])
            WITH ORDINALITY AS change (number, base, operation, key, n)
        JOIN \(sent.derivedTable(6)) ON sent.n = change.n - 1
        LEFT JOIN \(table.name) AS app_row ON \(SentRows.matches(table, "app_row"))
        WHERE CASE change.operation
            WHEN 'create' THEN app_row.tableoid IS NOT NULL
            ELSE app_row.tableoid IS NULL OR EXISTS (
                SELECT 1
                FROM tidemark.log AS log_entry
                WHERE log_entry.zone = $1 AND log_entry.tbl = \(table.literal) AND log_entry.key = change.key
                    AND log_entry.revision > change.base) END
        """
    }

    func laterChanges(_ changes: [BasedChange]) throws -> [Int: ContendedRecord] {
        try entries(changes.enumerated().map { ($0, $1) }).mapValues {
            ContendedRecord(exists: true, row: nil, changes: $0)
        }
    }

    /// Returns the log's entries of records after their bases, oldest first, by the number of the change.
    ///
    /// No author edits a generated column: its first values arrive when it is added.
    private func entries(_ changes: [(Int, BasedChange)]) throws -> [Int: [LoggedChange]] {
        guard !changes.isEmpty else { return [:] }
        let rows = try pg.query(
            """
            SELECT change.number, log_entry.revision, log_entry.operation, log_entry.columns, log_entry.merged,
                log_entry.before, origin.time, origin.device
            FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[]) AS change (number, base, tbl, key)
            JOIN tidemark.log AS log_entry
                ON log_entry.zone = $1 AND log_entry.tbl = change.tbl AND log_entry.key = change.key
                AND log_entry.revision > change.base
            LEFT JOIN tidemark.revision AS origin ON origin.zone = $1 AND origin.revision = log_entry.revision
            ORDER BY change.number, log_entry.revision
            """,
            [
                zone, PostgresArray.numbers(changes.map { Int64($0.0) }),
                PostgresArray.numbers(changes.map(\.1.base)),
                PostgresArray.quoted(changes.map { schema.tables[$0.1.name.table].name }),
                PostgresArray.quoted(changes.map(\.1.name.key)),
            ]
        )
        let tables = Dictionary(uniqueKeysWithValues: changes.map { ($0.0, $0.1.name.table) })
        var entries: [Int: [LoggedChange]] = [:]
        for row in rows.map({ $0 }) {
            let number = Int(row.integer(0) ?? 0)
            let columns = Set(row[3].map { Value.parts(ofKey: $0).compactMap(\.text) } ?? [])
            let operation = Operation(rawValue: row.text(2)) ?? .update
            let generated = try tables[number].map { try table($0).generated } ?? []
            guard operation != .update || generated.isEmpty || !columns.isSubset(of: generated) else { continue }
            entries[number, default: []].append(
                LoggedChange(
                    revision: row.integer(1) ?? 0,
                    isMerged: row.isTrue(4),
                    change: UnseenChange(
                        operation: operation,
                        columns: columns,
                        stamp: Stamp(time: row.integer(6) ?? 0, device: row[7])
                    ),
                    replacedHashes: try Self.hashes(row[5])
                )
            )
        }
        return entries
    }

    /// Reads the hashes of replaced values: a JSON object.
    private static func hashes(_ json: String?) throws -> [String: String] {
        var hashes: [String: String] = [:]
        guard let json else { return hashes }
        try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
            var reader = try JSONReader(bytes)
            try reader.object { (reader, column) throws(TidemarkError) in
                hashes[reader.text(of: column)] = reader.text(of: try reader.string())
            }
        }
        return hashes
    }

    // MARK: Rows

    func rows(_ names: [RecordID]) throws -> [RecordID: [Value]] {
        var rows: [RecordID: [Value]] = [:]
        for (place, names) in Self.byTable(names) {
            let table = try table(place)
            let found = try pg.query(
                """
                SELECT wanted.key, \(table.rowJSON("app_row"))
                FROM \(KeySet.keys(2))
                JOIN \(table.name) AS app_row ON \(KeySet.match(table, "app_row"))
                WHERE $1::text IS NOT NULL
                """,
                [zone, PostgresArray.quoted(names.map(\.key))]
            )
            for row in found.map({ $0 }) {
                let name = RecordID(table: place, key: row.text(0))
                rows[name] = try schema.layouts[place].row(key: name.key, object: row.text(1))
            }
        }
        return rows
    }

    /// Returns the last revisions of records whose rows the transaction has read.
    ///
    /// - Throws: ``Overtaken`` if another program committed an unabsorbed change of one of them: the row would not
    ///   match the revision.
    func revisions(of names: [RecordID]) throws -> [RecordID: Int64] {
        var revisions: [RecordID: Int64] = [:]
        for (place, names) in Self.byTable(names) {
            let rows = try pg.query(
                """
                SELECT wanted.key,
                    coalesce((SELECT max(revision) FROM tidemark.log AS log_entry
                        WHERE log_entry.zone = $1 AND log_entry.tbl = $3 AND log_entry.key = wanted.key), $4::bigint),
                    EXISTS (SELECT 1 FROM tidemark.capture AS other
                        WHERE other.zone = $1 AND other.xid <> pg_current_xact_id() AND other.tbl = $3
                            AND other.key = wanted.key)
                FROM \(KeySet.keys(2))
                """,
                [zone, PostgresArray.quoted(names.map(\.key)), schema.tables[place].name, "\(try head().adopted)"]
            )
            for row in rows.map({ $0 }) {
                if row.isTrue(2) { throw Overtaken() }
                revisions[RecordID(table: place, key: row.text(0))] = row.integer(1)
            }
        }
        return revisions
    }

    /// Groups names by table.
    private static func byTable(_ names: [RecordID]) -> [(Int, [RecordID])] {
        Dictionary(grouping: names, by: \.table).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    // MARK: Related records

    func children(of names: [RecordID], max: Int) throws -> [RecordID] {
        var children: [RecordID] = []
        for (place, names) in Self.byTable(names) {
            let parent = try table(place)
            for (childPlace, synced) in schema.tables.enumerated() {
                for reference in synced.references where reference.parent == parent.table.name {
                    let child = try table(childPlace)
                    let match = zip(reference.columns, reference.parentColumns).map {
                        "\(child.column($0, "child_row")) = \(parent.column($1, "parent_row"))"
                    }
                    let keys = try pg.query(
                        """
                        SELECT \(child.keyJSON("child_row"))
                        FROM \(KeySet.keys(2))
                        JOIN \(parent.name) AS parent_row ON \(KeySet.match(parent, "parent_row"))
                        JOIN \(child.name) AS child_row
                            ON \(([child.inZone("child_row")] + match).joined(separator: " AND "))
                        WHERE $1::text IS NOT NULL
                        LIMIT $3::int
                        """,
                        [zone, PostgresArray.quoted(names.map(\.key)), "\(max)"]
                    ).map { $0.text(0) }
                    children += keys.map { RecordID(table: childPlace, key: $0) }
                }
            }
        }
        return children
    }

    func holders(of columns: [String], in place: Int, _ changeSet: PendingChangeSet) throws -> Set<String> {
        let table = try table(place)
        let setting = Set(columns)
        let items = changeSet.records.indices.filter {
            changeSet.records[$0].table == place && changeSet.records[$0].operation != .delete
        }.map { (changeSet: 0, record: $0) }
        let taking = items.map { changeSet.records[$0.record] }
        let sent = try sentRows(items, of: table, in: [changeSet])
        let places = table.table.columns.enumerated().filter { setting.contains($1.name) }
        let sameValues = places.map { place, column in
            let fill = table.defaults[column.name].map { "(\($0))::\(table.type(column.name))" } ?? "NULL"
            let otherwise =
                "CASE WHEN change.operation = 'create' THEN \(fill) ELSE \(table.column(column.name, "own_row")) END"
            let value = sent.value(place, otherwise: otherwise, key: table.table.key.firstIndex(of: column.name))
            return "\(table.column(column.name, "app_row")) = \(value)"
        }
        let keys = try pg.query(
            """
            SELECT DISTINCT \(table.keyJSON("app_row"))
            FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS change (operation, key, n)
            JOIN \(sent.derivedTable(4)) ON sent.n = change.n - 1
            LEFT JOIN \(table.name) AS own_row ON \(SentRows.matches(table, "own_row"))
            JOIN \(table.name) AS app_row
                ON \(([table.inZone("app_row")] + sameValues).joined(separator: " AND "))
            WHERE $1::text IS NOT NULL AND \(table.keyJSON("app_row")) <> change.key
            """,
            [
                zone, PostgresArray.quoted(taking.map(\.operation.rawValue)),
                PostgresArray.quoted(taking.map(\.key)),
            ] + sent.parameters()
        ).map { $0.text(0) }
        return Set(keys)
    }
}
