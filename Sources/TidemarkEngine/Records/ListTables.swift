import TidemarkCore

/// Answers `GET /tables`: the zone's tables for people and pages.
package struct ListTables {
    private let reader: any ZoneReader

    /// Wraps a read transaction.
    package init(_ reader: any ZoneReader) { self.reader = reader }

    /// The tables as JSON, in the order of their names.
    package func json() throws -> String {
        let tables = try reader.schema.tables.sorted { $0.name < $1.name }.map(table)
        return JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("horizon", String(reader.state.horizon)), ("tables", JSONText.array(tables)),
        ])
    }

    private func table(_ table: SyncedTable) throws -> String {
        let policies = table.valueColumns.compactMap { column in
            reader.schema.policies["\(table.name).\(column.name)"].map { (column.name, JSONText.quote($0.rawValue)) }
        }
        return JSONText.object([
            ("name", JSONText.quote(table.name)), ("key", Self.names(table.key)),
            ("columns", JSONText.array(table.columns.map { Self.column($0, isKey: table.key.contains($0.name)) })),
            ("references", JSONText.array(table.references.map(Self.reference))),
            ("unique", JSONText.array(table.uniques.map(Self.names))),
            ("policy", JSONText.quote((reader.schema.policies[table.name] ?? .reject).rawValue)),
            ("policies", JSONText.object(policies)),
            ("rows", try reader.estimate(table).json),
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
