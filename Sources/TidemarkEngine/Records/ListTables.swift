import TidemarkCore

/// Answers `GET /tables`: the zone's tables for people and pages.
extension ZoneReader {
    /// The tables as JSON, in the order of their names.
    package func tablesJSON() throws -> String {
        let tables = try schema.tables.sorted { $0.name < $1.name }.map(table)
        return JSONText.object([
            ("epoch", JSONText.quote(state.epoch)), ("revision", String(state.revision)),
            ("horizon", String(state.horizon)), ("tables", JSONText.array(tables)),
        ])
    }

    private func table(_ table: SyncedTable) throws -> String {
        let policies = table.valueColumns.compactMap { column in
            schema.policies["\(table.name).\(column.name)"].map { (column.name, JSONText.quote($0.rawValue)) }
        }
        return JSONText.object([
            ("name", JSONText.quote(table.name)), ("key", Self.names(table.key)),
            ("columns", JSONText.array(table.columns.map { Self.column($0, isKey: table.key.contains($0.name)) })),
            ("references", JSONText.array(table.references.map(Self.reference))),
            ("unique", JSONText.array(table.uniques.map(Self.names))),
            ("policy", JSONText.quote((schema.policies[table.name] ?? .reject).rawValue)),
            ("policies", JSONText.object(policies)),
            ("rows", try estimate(table).json),
        ])
    }

    private static func column(_ column: SyncedTable.Column, isKey: Bool) -> String {
        JSONText.object([
            ("name", JSONText.quote(column.name)), ("type", JSONText.quote(column.type)),
            ("notNull", column.isNotNull || isKey ? "true" : "false"),
            ("default", column.defaultSQL.map { JSONText.quote($0) } ?? "null"),
        ])
    }

    private static func reference(_ reference: SyncedTable.Reference) -> String {
        JSONText.object([
            ("columns", names(reference.columns)), ("parent", JSONText.quote(reference.parent)),
            ("parentColumns", names(reference.parentColumns)),
            ("onDelete", JSONText.quote(reference.onDelete.rawValue)),
        ])
    }

    private static func names(_ names: [String]) -> String { JSONText.array(names.map { JSONText.quote($0) }) }
}
