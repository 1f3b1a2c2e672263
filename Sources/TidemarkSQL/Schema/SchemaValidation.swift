import Foundation
package import TidemarkCore

extension SchemaIntrospection {
    /// Checks that every table of a schema can be synced; throws ``TidemarkCore/UnsyncableSchema``.
    package static func validate(_ schema: SyncSchema) throws {
        _ = try SchemaIntrospection(tables: schema.tables).makeSchema()
    }

    /// Returns the schema of the tables; throws ``TidemarkCore/UnsyncableSchema`` with all problems and their cures.
    package func makeSchema(
        policies: [String: ConflictPolicy] = [:], history: SchemaHistory = SchemaHistory(),
        objects: FileObjects = FileObjects(), limits: Limits = .standard
    ) throws -> SyncSchema {
        let names = Set(tables.map(\.name))
        // The cures work in this order: after a rename, the other cures would not find the table.
        let problems =
            tables.flatMap(keyProblems) + tables.flatMap { referenceProblems($0, among: names) }
            + tables.flatMap { columnProblems($0, limits) + sizeProblems($0, limits) }
            + tables.flatMap { nameProblems($0, limits) }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        return SyncSchema(tables: tables, policies: policies, history: history, objects: objects)
    }

    private func keyProblems(_ table: SyncedTable) -> [SchemaProblem] {
        guard table.key.isEmpty else { return [] }
        let isDeclared = table.traits?.key != nil
        return [
            SchemaProblem(
                table: table.name,
                reason: isDeclared
                    ? "lacks columns of the key that was declared for it"
                    : "has no primary key, and its columns have all names of the rowid",
                cure: "-- name the columns that identify a row: --key \(table.name)=COLUMN,COLUMN")
        ]
    }

    /// Converts a name to one that the protocol can carry.
    private func plainName(_ name: String, suffix: String) -> String {
        SQLText.name(name.filter { $0.isLetter || $0.isNumber }.prefix(24) + suffix)
    }

    private func nameProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        guard !isPlain(WireName.member(table: table.name), limits) else { return [] }
        return [
            SchemaProblem(
                table: table.name,
                reason: "has a name that the protocol cannot carry",
                cure: """
                    ALTER TABLE \(SQLText.name(table.name)) RENAME TO \
                    \(plainName(table.name, suffix: "_records"));
                    """)
        ]
    }

    private func columnProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        table.columns.filter { !isPlain(WireName.member(column: $0.name), limits) }.map { column in
            SchemaProblem(
                table: table.name,
                column: column.name,
                reason: "has a name that the protocol cannot carry",
                cure: """
                    ALTER TABLE \(SQLText.name(table.name)) RENAME COLUMN \
                    \(SQLText.name(column.name)) TO \
                    \(plainName(column.name, suffix: "_value"));
                    """)
        }
    }

    private func isPlain(_ name: String, _ limits: Limits) -> Bool {
        name.utf8.count <= limits.nameBytesMax
            && name.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    private func sizeProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        guard table.columns.count > limits.columnsPerTableMax else { return [] }
        return [
            SchemaProblem(
                table: table.name,
                reason: "has \(table.columns.count) columns; at most \(limits.columnsPerTableMax) sync",
                cure: "-- move some columns to a second table with the same primary key")
        ]
    }

    private func referenceProblems(_ table: SyncedTable, among names: Set<String>) -> [SchemaProblem] {
        table.references.compactMap { reference in
            let parent = tables.first { $0.name == reference.parent }
            let targets = parent.map { [Set($0.key)] + $0.uniques.map(Set.init) } ?? []
            let isMatched = targets.contains(Set(reference.parentColumns))
            guard !isMatched else { return nil }
            guard names.contains(reference.parent) else {
                return SchemaProblem(
                    table: table.name, column: reference.columns.first,
                    reason: "refers to \(reference.parent), which is not a synced table",
                    cure: "-- create \(reference.parent), sync it too, or exclude \(table.name) with --exclude")
            }
            return SchemaProblem(
                table: table.name, column: reference.columns.first,
                reason: "refers to columns of \(reference.parent) that are not its key and not unique",
                cure: Self.uniqueIndex(reference, besides: objectNames))
        }
    }

    /// The statement that makes the parent's columns of a reference unique, by an index of a name that is free.
    static func uniqueIndex(_ reference: SyncedTable.Reference, besides names: Set<String>) -> String {
        var name = ([reference.parent] + reference.parentColumns).joined(separator: "_")
        while names.contains(name.lowercased()) { name += "_unique" }
        return """
            CREATE UNIQUE INDEX IF NOT EXISTS \(SQLText.name(name)) ON \
            \(SQLText.name(reference.parent)) (\(SQLText.names(reference.parentColumns)));
            """
    }
}
