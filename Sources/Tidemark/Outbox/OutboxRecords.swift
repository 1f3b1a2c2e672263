import TidemarkCore
import TidemarkSQLite

/// What travels of the records in the outbox, as SQL.
struct OutboxRecords {
    let schema: SyncSchema

    /// The records of one table in the change set that `seq` names, with temporary ids as they
    /// travel: negative.
    func sql(_ table: SyncedTable, seq: String) -> String {
        let base = planted(PlantedBug.takesBaseWhenSending) ? "(SELECT revision FROM tidemark_state)" : "base"
        let references = Set(Catalog.integerReferences(of: table, in: schema).map(\.column))
        let attributes = attributes(of: table, references.subtracting(table.key))
        var key = "key"
        if table.keyKind == .integer {
            key = "CASE WHEN CAST(key AS INTEGER) >= \(TemporaryID.reservedMin) THEN '-' || key ELSE key END"
        } else if table.key.count > 1 {
            let positions = table.key.indices.filter { references.contains(table.key[$0]) }
            key = negated("key", in: "key", at: positions.map { SQLText.literal("$[\($0)]") })
        } else if let column = table.key.first, references.contains(column) {
            key = "CASE WHEN CAST(key AS INTEGER) >= \(TemporaryID.reservedMin) THEN '-' || key ELSE key END"
        }
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

    /// The attributes that the zone has columns for, under the zone's names, and with the ids in
    /// `references` as they travel.
    private func attributes(of table: SyncedTable, _ references: Set<String>) -> String {
        let path = { (name: String) in SQLText.literal("$.\"\(name)\"") }
        let unserved = schema.difference.unservedColumns[table.name, default: []].map(\.name)
        let names = schema.difference.wireNames[table.name, default: [:]].sorted { $0.key < $1.key }
        var result = negated("coalesce(attributes, '{}')", in: "attributes", at: references.sorted().map(path))
        result = call("json_remove", on: result, (unserved + names.map(\.key)).map(path))
        if planted(PlantedBug.erasesUnknownColumns),
            let erased = schema.difference.unknownColumns[table.name]?.first(where: { !$0.isNotNull })
        {
            result = "iif(operation = 'update', json_set(\(result), \(path(erased.name)), NULL), \(result))"
        }
        guard !names.isEmpty else { return result }
        let renamed = names.map { name in
            let value = "attributes -> \(path(name.key))"
            let sent =
                references.contains(name.key)
                ? "iif(\(isTemporary(path(name.key), in: "attributes")), -(attributes ->> \(path(name.key))), \(value))"
                : "(\(value))"
            // NULL, and no member, where the record has no such attribute.
            return "\(SQLText.literal(ChangeSetJSON.quote(name.value) + ":")) || \(sent)"
        }
        let members = "substr(\(result), 2, length(\(result)) - 2)"
        return "tidemark_object(\(members), \(renamed.joined(separator: ", ")))"
    }

    /// JSON with the temporary ids negated that stand at some paths of a column, from which the
    /// JSON is made.
    ///
    /// All at once: SQLite nests no expression as deeply as a table may have references.
    private func negated(_ json: String, in column: String, at paths: [String]) -> String {
        guard !paths.isEmpty else { return json }
        let ids = paths.map { isTemporary($0, in: column) }
        let pairs = zip(paths, ids).map { path, isTemporary in
            // A path that is nowhere changes nothing.
            "iif(\(isTemporary), \(path), '$.\"\"'), -(\(column) ->> \(path))"
        }
        return """
            CASE WHEN \(ids.joined(separator: " OR ")) THEN \(call("json_replace", on: json, pairs))
                ELSE \(json) END
            """
    }

    private func isTemporary(_ path: String, in column: String) -> String {
        let value = "(\(column) ->> \(path))"
        return "(typeof\(value) = 'integer' AND \(value) >= \(TemporaryID.reservedMin))"
    }

    /// Calls a function on JSON, of as many arguments at a time as SQLite takes.
    private func call(_ function: String, on json: String, _ arguments: [String]) -> String {
        stride(from: 0, to: arguments.count, by: 60).reduce(json) { json, start in
            let part = arguments[start..<min(start + 60, arguments.count)]
            return "\(function)(\(json), \(part.joined(separator: ", ")))"
        }
    }
}
