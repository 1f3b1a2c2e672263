import GRDB
import TidemarkHistory

/// All rows of a file, read by plain `SELECT`, in one canonical form.
///
/// The reader uses no part of the engine.
struct FileImage: Hashable {
    /// The version of the tables; see ``Migrations/versions``.
    let version: Int
    /// For each table its rows in key order, as bytes.
    private(set) var tables: [[UInt8]] = []

    /// No rows.
    static func empty(version: Int = 0) -> FileImage {
        FileImage(version: version, tables: Migrations.versions[version].map { _ in [] })
    }

    private init(version: Int, tables: [[UInt8]]) {
        self.version = version
        self.tables = tables
    }

    /// Reads the rows.
    init(_ db: Database, version: Int = 0) throws {
        self.version = version
        tables = try Migrations.versions[version].map {
            try RowBytes.read($0.rowsSQL, columns: $0.columns.count, in: db)
        }
    }

    private var shape: [ZoneSchema.Table] { Migrations.versions[version] }

    /// The same rows in the tables of a later version: new columns have their default everywhere.
    func migrated(to version: Int) -> FileImage {
        let new = Migrations.versions[version].map { table -> [UInt8] in
            guard let index = shape.firstIndex(where: { $0.name == table.name }) else { return [] }
            let added = table.columns.dropFirst(shape[index].columns.count).map {
                RowBytes.encode(json: table.defaults[$0] ?? "null")
            }
            return RowBytes.append(Array(added.joined()), to: tables[index], columns: shape[index].columns.count)
        }
        return FileImage(version: version, tables: new)
    }

    /// The rows of a table, each as its values in canonical JSON.
    func rows(_ index: Int) -> [[String]] {
        RowBytes.rows(tables[index], columns: shape[index].columns.count).map { $0.map(\.json) }
    }

    /// All rows, by record.
    var records: [RecordID: Cells] {
        tables.indices.reduce(into: [:]) { all, index in all.merge(records(index)) { first, _ in first } }
    }

    /// All rows as readable lines.
    var lines: [String] {
        shape.enumerated().flatMap { index, table in
            rows(index).map { row in
                "\(table.name) " + zip(table.columns, row).map { "\($0)=\($1)" }.joined(separator: " ")
            }
        }
    }

    /// The changed rows since another image of the same version, in order of tables and keys.
    func changes(since old: FileImage) -> [RowChange] {
        tables.indices.filter { tables[$0] != old.tables[$0] }.flatMap { index in
            let before = old.records(index)
            let after = records(index)
            let touched = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }
            return touched.sorted().map { RowChange($0, before: before[$0], after: after[$0]) }
        }
    }

    private func records(_ index: Int) -> [RecordID: Cells] {
        let table = shape[index]
        var records: [RecordID: Cells] = [:]
        for row in rows(index) {
            let parts = table.key.map { row[$0] }
            let key = parts.count == 1 ? parts[0] : "[\(parts.joined(separator: ","))]"
            records[RecordID(table.name, key)] = Cells(zip(table.columns, row), uniquingKeysWith: { $1 })
        }
        return records
    }
}
