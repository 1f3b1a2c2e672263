import TidemarkCore
import TidemarkSQLite

/// What travels of the records in the outbox, as SQL.
struct OutboxRecords {
    let schema: SyncSchema

    /// The records of one table in the change set that `seq` names, with temporary ids as they
    /// travel: negative.
    func sql(_ table: SyncedTable, seq: String) -> String {
        let base =
            planted(PlantedBug.takesBaseWhenSending)
            ? "(SELECT revision FROM tidemark_state)" : "base"
        let references = Set(Catalog.integerReferences(of: table, in: schema).map(\.column))
        var attributes = "coalesce(attributes, '{}')"
        for column in references.sorted() where !table.key.contains(column) {
            let path = SQLText.literal("$.\"\(column)\"")
            attributes = negated(attributes, path: path, value: "(attributes ->> \(path))")
        }
        var key = "key"
        if table.keyKind == .integer {
            key =
                "CASE WHEN CAST(key AS INTEGER) >= \(TemporaryID.reservedMin) THEN '-' || key ELSE key END"
        } else if table.key.count > 1 {
            for (position, column) in table.key.enumerated() where references.contains(column) {
                let path = SQLText.literal("$[\(position)]")
                key = negated(key, path: path, value: "(key ->> \(path))")
            }
        } else if let column = table.key.first, references.contains(column) {
            key =
                "CASE WHEN CAST(key AS INTEGER) >= \(TemporaryID.reservedMin) THEN '-' || key ELSE key END"
        }
        attributes = served(attributes, of: table)
        return """
            SELECT key, operation, CASE operation
                WHEN 'create' THEN substr(attributes, 2, length(attributes) - 2)
                ELSE '"revision":' || \(base) || CASE coalesce(attributes, '{}') WHEN '{}' THEN ''
                    ELSE ',' || substr(attributes, 2, length(attributes) - 2) END END AS members
            FROM (SELECT \(key) AS key, operation, base, \(attributes) AS attributes
                FROM tidemark_outbox WHERE seq = \(seq) AND tbl = \(SQLText.literal(table.name)))
            WHERE operation <> 'update' OR attributes <> '{}'
            """
    }

    /// The attributes that the zone has columns for, under the zone's names.
    private func served(_ attributes: String, of table: SyncedTable) -> String {
        let path = { (name: String) in SQLText.literal("$.\"\(name)\"") }
        let unserved = schema.difference.unservedColumns[table.name, default: []].map(\.name)
        var result = attributes
        if !unserved.isEmpty {
            result = "json_remove(\(result), \(unserved.map(path).joined(separator: ", ")))"
        }
        if planted(PlantedBug.erasesUnknownColumns),
            let erased = schema.difference.unknownColumns[table.name]?.first(where: {
                !$0.isNotNull
            })
        {
            result =
                "iif(operation = 'update', json_set(\(result), \(path(erased.name)), NULL), \(result))"
        }
        let names = schema.difference.wireNames[table.name, default: [:]]
        for (own, wire) in names.sorted(by: { $0.key < $1.key }) {
            result = """
                CASE WHEN json_type(attributes, \(path(own))) IS NULL THEN \(result) ELSE json_set(
                    json_remove(\(result), \(path(own))), \(path(wire)), json(\(result) -> \(path(own)))) END
                """
        }
        return result
    }

    private func negated(_ json: String, path: String, value: String) -> String {
        """
        CASE WHEN typeof\(value) = 'integer' AND \(value) >= \(TemporaryID.reservedMin)
            THEN json_set(\(json), \(path), -\(value)) ELSE \(json) END
        """
    }
}
