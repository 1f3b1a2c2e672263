import TidemarkCore
import TidemarkSQL

/// Builds SQL that renders the outbox's records for the wire.
struct OutboxRecords {
    let schema: SyncSchema

    /// Returns SQL for the records of one table in two change sets and those between, with negative temporary ids.
    ///
    /// The sign before `tbl` has SQLite search the few numbers of a batch, and not all of a table's records.
    /// A row is `seq`, `key` in canonical JSON, `operation`, and `members`: attributes without braces, or NULL.
    func sql(_ table: SyncedTable) -> String {
        let base = planted(PlantedBug.takesBaseWhenSending) ? "(SELECT revision FROM tidemark_state)" : "base"
        let references = Set(schema.integerReferences(of: table).map(\.column))
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
            SELECT seq, key, operation, CASE operation
                WHEN 'create' THEN substr(attributes, 2, length(attributes) - 2)
                ELSE '"revision":' || \(base) || CASE coalesce(attributes, '{}') WHEN '{}' THEN ''
                    ELSE ',' || substr(attributes, 2, length(attributes) - 2) END END AS members
            FROM (SELECT seq, \(key) AS key, operation, base, \(attributes) AS attributes
                FROM tidemark_outbox WHERE seq BETWEEN ? AND ? AND +tbl = \(SQLText.literal(table.name)))
            WHERE operation <> 'update' OR attributes <> '{}'
            """
    }

    /// Returns SQL for the attributes under the zone's column names, with temporary ids in `references` negated.
    private func attributes(of table: SyncedTable, _ references: Set<String>) -> String {
        let path = { (name: String) in SQLText.literal(MemberSQL.path(name)) }
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
            let member = path(name.key)
            let value = "attributes -> \(member)"
            let wireValue =
                references.contains(name.key)
                ? "iif(\(temporaryIDCondition(member, in: "attributes")), -(attributes ->> \(member)), \(value))"
                : "(\(value))"
            // If the record has no such attribute, this is NULL and adds no member.
            return "\(SQLText.literal(JSONText.quote(WireName.member(column: name.value)) + ":")) || \(wireValue)"
        }
        let members = "substr(\(result), 2, length(\(result)) - 2)"
        return "tidemark_object(\(members), \(renamed.joined(separator: ", ")))"
    }

    /// Returns SQL for JSON in which temporary ids at some paths are negated; it reads them from `column`.
    ///
    /// One call handles all paths, because a table can have more references than SQLite nests expressions.
    private func negated(_ json: String, in column: String, at paths: [String]) -> String {
        guard !paths.isEmpty else { return json }
        let ids = paths.map { temporaryIDCondition($0, in: column) }
        let pairs = zip(paths, ids).map { path, condition in
            // The path `$.""` does not exist, so it changes nothing.
            "iif(\(condition), \(path), '$.\"\"'), -(\(column) ->> \(path))"
        }
        return """
            CASE WHEN \(ids.joined(separator: " OR ")) THEN \(call("json_replace", on: json, pairs))
                ELSE \(json) END
            """
    }

    private func temporaryIDCondition(_ path: String, in column: String) -> String {
        let value = "(\(column) ->> \(path))"
        return "(typeof\(value) = 'integer' AND \(value) >= \(TemporaryID.reservedMin))"
    }

    /// How many arguments one call gets; each may be a pair, and SQLite allows 127.
    private static let argumentsMax = 60

    /// Returns nested calls of a JSON function, each with as many arguments as SQLite allows.
    private func call(_ function: String, on json: String, _ arguments: [String]) -> String {
        stride(from: 0, to: arguments.count, by: Self.argumentsMax).reduce(json) { json, start in
            let part = arguments[start..<min(start + Self.argumentsMax, arguments.count)]
            return "\(function)(\(json), \(part.joined(separator: ", ")))"
        }
    }
}
