import TidemarkCore

/// The declared types of served columns, which a later description of the same table keeps.
struct ServedTypes {
    private let catalogue: [String: CatalogueTable]
    private let declared: [String: [String: String]]

    static let none = ServedTypes(schema: SyncSchema(tables: []), catalogue: [:])

    init(schema: SyncSchema, catalogue: [String: CatalogueTable]) {
        self.catalogue = catalogue
        declared = schema.tables.reduce(into: [:]) { tables, table in
            tables[table.name] = table.columns.reduce(into: [:]) { $0[$1.name] = $1.type }
        }
    }

    /// Returns a column's declared type, by its number also after a rename; nil for a new one.
    func declaredType(of column: String, in table: String, number: Int64?, tableNumber: Int64?) -> String? {
        guard let before = catalogue[table] else { return declared[table]?[column] }
        guard before.number == tableNumber else { return declared[table]?[column] }
        let name = before.columns.first { $0.value.number == number }?.key
        return name.flatMap { declared[table]?[$0] }
    }
}
