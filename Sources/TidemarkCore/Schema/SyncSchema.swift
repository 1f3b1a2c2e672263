import Synchronization

/// The synced tables of a zone, with their conflict policies.
public struct SyncSchema: Hashable, Sendable {
    /// The tables, parents before children wherever references form no cycle.
    package let tables: [SyncedTable]
    package let byName: [String: SyncedTable]
    /// The policies of tables, and of `table.column`, that differ from the default.
    package let policies: [String: ConflictPolicy]
    package let history: SchemaHistory
    /// On a device, the difference between its file and the zone; empty elsewhere.
    package let difference: SchemaDifference
    /// The other parts of the zone's file.
    package let objects: FileObjects
    /// What follows from the rest, made when it is needed first.
    private let forms = SchemaForms()

    package init(
        tables: [SyncedTable], policies: [String: ConflictPolicy] = [:], history: SchemaHistory = SchemaHistory(),
        difference: SchemaDifference = SchemaDifference(), objects: FileObjects = FileObjects()
    ) {
        self.tables = Self.parentsFirst(tables)
        self.byName = Dictionary(uniqueKeysWithValues: tables.map { ($0.name, $0) })
        self.policies = policies
        self.history = history
        self.difference = difference
        self.objects = objects
    }

    package var wireNames: WireNames { form { WireNames(of: self) } }
    /// The places of the tables in ``tables``, by name.
    package var places: [String: Int] { form { TablePlaces(of: tables) }.byName }
    /// Identifies the columns and order that fingerprints of rows cover: only those of one layout are comparable.
    package var fingerprintLayout: String { form { FingerprintLayout(hash: ContentHash.of(shape)) }.hash }
    /// The forms of the tables' rows in JSON, in the order of ``tables``.
    package var layouts: [RowLayout] { form { tables.map(RowLayout.init) } }

    /// Returns a value that follows from the schema, and makes it at the first call for its type.
    package func form<Form: Sendable>(_ make: () -> Form) -> Form { forms.form(make) }
    package func policy(of table: String) -> ConflictPolicy { policies[table] ?? .reject }

    package func columnPolicies(of table: String) -> [String: ConflictPolicy] {
        guard let columns = byName[table]?.valueColumns.map(\.name), !policies.isEmpty else { return [:] }
        let wireNames = difference.wireNames[table, default: [:]]
        return columns.reduce(into: [:]) { $0[$1] = policies["\(table).\(wireNames[$1] ?? $1)"] }
    }

    package func addingColumns(of table: String) -> Set<String> {
        Set(columnPolicies(of: table).filter { $0.value == .add }.keys)
    }

    /// Whether 0 stands for no record in some reference.
    package var hasZeroReferences: Bool { tables.contains { $0.traits?.zeroReferences != nil } }
    /// Whether any policy compares clocks, so that change sets need times.
    package var needsTimes: Bool { policies.values.contains(.latest) }

    /// Returns the references to `table`, including its own.
    package func references(to table: String) -> [(child: SyncedTable, reference: SyncedTable.Reference)] {
        tables.flatMap { child in child.references.filter { $0.parent == table }.map { (child, $0) } }
    }

    /// The names, keys, columns and types as text; a device and the server exchange rows only if their shapes agree.
    package var shape: String {
        tables.sorted { $0.name < $1.name }.map { table in
            let columns = table.columns.sorted { $0.name < $1.name }.map { "\($0.name) \($0.type.uppercased())" }
                .joined(separator: ",")
            return "\(table.name)(\(columns);\(table.key.joined(separator: ",")))"
        }.joined(separator: "\n")
    }

    /// Orders tables so that parents come first; tables of a cycle keep their order.
    private static func parentsFirst(_ tables: [SyncedTable]) -> [SyncedTable] {
        var remaining = tables
        var ordered: [SyncedTable] = []
        while !remaining.isEmpty {
            let names = Set(remaining.map(\.name))
            let free = remaining.filter { table in
                table.references.allSatisfy { $0.parent == table.name || !names.contains($0.parent) }
            }
            let next = free.isEmpty ? [remaining[0]] : free
            ordered += next
            let nextNames = Set(next.map(\.name))
            remaining.removeAll { nextNames.contains($0.name) }
        }
        return ordered
    }
}

/// What follows from a schema, made when it is needed first and kept, from any thread; it distinguishes no two schemas.
final class SchemaForms: Sendable {
    private let forms = Mutex<[ObjectIdentifier: any Sendable]>([:])

    func form<Form: Sendable>(_ make: () -> Form) -> Form {
        let key = ObjectIdentifier(Form.self)
        if let form = forms.withLock({ $0[key] }) as? Form { return form }
        // Two threads may make it at once; both forms are the same.
        let form = make()
        forms.withLock { $0[key] = form }
        return form
    }
}

extension SchemaForms: Hashable {
    static func == (one: SchemaForms, other: SchemaForms) -> Bool { true }
    func hash(into hasher: inout Hasher) {}
}

private struct TablePlaces: Sendable {
    let byName: [String: Int]

    init(of tables: [SyncedTable]) {
        byName = Dictionary(uniqueKeysWithValues: tables.enumerated().map { ($1.name, $0) })
    }
}

private struct FingerprintLayout: Sendable { let hash: String }

/// Properties of a table that `CREATE TABLE` does not show; the zone decides them once, and the schema carries them.
package struct TableTraits: Hashable, Sendable, Codable {
    /// The columns that identify a record of a table without a primary key: unique or declared ones, or the rowid.
    package var key: [String]?
    /// The lowest permanent id of a table that had negative ids from the start; ids below it are temporary.
    package var lowestID: Int64?
    /// The columns of references in which 0 stands for no record.
    package var zeroReferences: [String]?

    package init(key: [String]? = nil, lowestID: Int64? = nil, zeroReferences: [String]? = nil) {
        self.key = key
        self.lowestID = lowestID
        self.zeroReferences = zeroReferences
    }

    /// Returns the lowest permanent id of a table whose rows have `min` as their lowest; nil if it is not negative.
    package static func lowestID(ofRows min: Int64?) -> Int64? {
        min.flatMap { (TemporaryID.adoptedMin..<0).contains($0) ? $0 : nil }
    }

    package var isEmpty: Bool { self == TableTraits() }
}

extension SyncSchema {
    /// Returns a synced table; throws ``ErrorCode/unknownTable``.
    package func table(_ name: String) throws(TidemarkError) -> SyncedTable {
        guard let table = byName[name] else { throw .unknownTable(name) }
        return table
    }
}

extension TidemarkError {
    static func unknownTable(_ name: String) -> TidemarkError {
        TidemarkError(
            .unknownTable, "The zone has no synced table of this name.",
            fix: "Spell the table as in CREATE TABLE; GET /tables lists the tables.", place: .init(table: name))
    }
}

extension SyncedTable {
    /// The names by which SQLite knows the row number of a table, in the order of preference.
    package static let rowidNames = ["rowid", "_rowid_", "oid"]
    /// Whether the key is the rowid, which no column declares.
    package var hasRowidKey: Bool { keyKind == .integer && traits?.key != nil }

    package func allowsZero(in reference: Reference) -> Bool {
        reference.columns.count == 1 && traits?.zeroReferences?.contains(reference.columns[0]) == true
    }

    /// The lowest permanent id of an integer-keyed table.
    package var lowestID: Int64 { traits?.lowestID ?? 0 }
}

/// The parts of a served file besides synced tables and rows, since a device's file is the program's whole database.
package struct FileObjects: Hashable, Sendable, Codable {
    package struct Object: Hashable, Sendable, Codable {
        /// The kinds of objects, in the order of creation.
        package enum Kind: String, Hashable, Sendable, Codable, CaseIterable {
            /// A table that stays local: it exists on each device with rows of its own.
            case table
            case index
            /// A virtual table, such as a full-text index.
            case virtual
            case view
            case trigger
        }

        package let kind: Kind
        package let name: String
        /// The `CREATE` statement, as SQLite stores it.
        package let sql: String
        /// Where a trigger runs that writes synced tables: where the program writes (true) or at the server.
        package let runsAtDevice: Bool?

        package init(kind: Kind, name: String, sql: String, runsAtDevice: Bool? = nil) {
            self.kind = kind
            self.name = name
            self.sql = sql
            self.runsAtDevice = runsAtDevice
        }
    }

    /// A table in which a framework notes the migrations that a file has had; the table itself is among the objects.
    package struct MigrationTable: Hashable, Sendable, Codable {
        package let name: String
        /// Each an object of its columns in JSON.
        package let rows: [String]

        package init(name: String, rows: [String]) {
            self.name = name
            self.rows = rows
        }
    }

    /// `PRAGMA user_version`, by which programs number their migrations.
    package var userVersion: Int64 = 0
    /// `PRAGMA application_id`, by which programs recognise their files.
    package var applicationID: Int64 = 0
    /// The tables in which the program's framework notes the migrations that the file has had.
    package var migrationTables: [MigrationTable] = []
    /// The objects, in the order of creation.
    package var objects: [Object] = []
    /// The functions that only the program has.
    package var functions: [String] = []
    /// The names of the collations that stand for the program's own, by the program's name.
    package var collations: [String: String] = [:]

    package init() {}

    /// Decodes the parts; objects of a kind that this version does not know are left out.
    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        userVersion = try members.decodeIfPresent(Int64.self, forKey: .userVersion) ?? 0
        applicationID = try members.decodeIfPresent(Int64.self, forKey: .applicationID) ?? 0
        migrationTables = try members.decodeIfPresent([MigrationTable].self, forKey: .migrationTables) ?? []
        objects = try members.decodeIfPresent([KnownObject].self, forKey: .objects)?.compactMap(\.object) ?? []
        functions = try members.decodeIfPresent([String].self, forKey: .functions) ?? []
        collations = try members.decodeIfPresent([String: String].self, forKey: .collations) ?? [:]
    }

    /// An object, or nil in place of one of an unknown kind.
    private struct KnownObject: Decodable {
        let object: Object?

        private enum CodingKeys: String, CodingKey { case kind }

        init(from decoder: any Decoder) throws {
            let kind = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .kind)
            object = Object.Kind(rawValue: kind) == nil ? nil : try Object(from: decoder)
        }
    }

    /// Whether a file has only synced tables, so that the schema's text need not mention this.
    package var isEmpty: Bool { self == FileObjects() }
    /// Whether a trigger runs where the program writes instead of at the server.
    package var hasDeviceTriggers: Bool { objects.contains { $0.runsAtDevice == true } }
}
