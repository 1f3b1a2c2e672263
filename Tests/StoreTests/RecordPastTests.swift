import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// A record's history tells what each revision made of it: as many copies of the rows say, one of each revision.
@Suite(.serialized) struct RecordPastTests {
    private static let schema = """
        CREATE TABLE note (code TEXT PRIMARY KEY NOT NULL, n INTEGER, size REAL, photo BLOB, "$odd" TEXT);
        INSERT INTO note VALUES ('a', 1, 0.1, x'00', NULL), ('é"', NULL, 1e300, NULL, 'old');
        """
    private static let codes = ["a", "b", "é\"", "d, e", ""]
    private static let values = [
        ["0", "-1", "9007199254740993", "NULL"], ["0.0", "-2.5", "1e300", "0.1", "NULL"], ["x''", "x'00ff'", "NULL"],
        ["'a'", "'{\"$'", "''", "'😀'", "NULL"],
    ]
    private static let columns = ["n", "size", "photo", "$odd"]

    /// The rows of the table, each with its values in JSON by key.
    private typealias Rows = [String: [String]]

    @Test(arguments: Store.all, [1, 2, 3] as [UInt64])
    func `another program edits five records a hundred times; each history fits all copies of the rows`(
        store: Store, seed: UInt64
    ) async throws {
        var random = SeededGenerator(seed: seed)
        let zone = try await Zone(store, Self.schema)
        var past: [(revision: Int64, rows: Rows)] = [(1, try await Self.rows(zone))]
        for _ in 0..<100 {
            let count = Int.random(in: 1...3, using: &random)
            let edits = (0..<count).map { _ in Self.edit(&random) }.joined(separator: ";\n")
            try await zone.writeOutside(store == .postgres ? edits.replacing("x'", with: "'\\x") : edits)
            try await zone.service.look(zone: "main")
            let revision = try await zone.revision()
            if revision > past[past.count - 1].revision { past.append((revision, try await Self.rows(zone))) }
        }
        #expect(past.count > 50)
        for code in Self.codes {
            let key = JSONText.quote(code)
            var expected: [String] = []
            for (old, new) in zip(past, past.dropFirst()) {
                guard let change = Self.change(from: old.rows[key], to: new.rows[key]) else { continue }
                expected.append("\(new.revision) \(change)")
            }
            #expect(try await Self.history(zone, code) == expected.reversed(), "\(code)")
        }
    }

    private static func edit(_ random: inout SeededGenerator) -> String {
        let code = "'\(codes[Int.random(in: 0..<codes.count, using: &random)])'"
        func value(_ column: Int) -> String { values[column][Int.random(in: 0..<values[column].count, using: &random)] }
        switch Int.random(in: 0..<5, using: &random) {
        case 0: return "DELETE FROM note WHERE code = \(code)"
        case 1, 2:
            let row = columns.indices.map(value).joined(separator: ", ")
            return "INSERT INTO note VALUES (\(code), \(row)) ON CONFLICT DO NOTHING"
        default:
            let column = Int.random(in: 0..<columns.count, using: &random)
            return "UPDATE note SET \"\(columns[column])\" = \(value(column)) WHERE code = \(code)"
        }
    }

    private static func rows(_ zone: Zone) async throws -> Rows {
        try await zone.service.read(
            .local("main"),
            ZoneQuestion { reader in
                var query = RowQuery(try reader.schema.table("note"), limit: 10, bytesMax: 1 << 20)
                query.columns = query.table.valueColumns
                return try reader.rows(query).rows.reduce(into: [:]) { $0[$1.key] = $1.cells }
            })
    }

    /// A change as a history tells it; nil without one.
    private static func change(from old: [String]?, to new: [String]?) -> String? {
        guard old != new else { return nil }
        guard let old else { return "create null \(object(new ?? [], columns.indices))" }
        guard let new else { return "delete \(object(old, columns.indices)) null" }
        let changed = columns.indices.filter { old[$0] != new[$0] }
        return "update \(object(old, changed)) \(object(new, changed))"
    }

    private static func object(_ row: [String], _ places: some Sequence<Int>) -> String {
        JSONText.object(places.map { (RecordText.member(of: columns[$0]), RecordText.value(row[$0])) })
    }

    /// All pages of a history, newest first: revision, operation, and the values before and after.
    private static func history(_ zone: Zone, _ code: String) async throws -> [String] {
        var items: [String] = []
        var before = "\(Int64.max)"
        while true {
            let query = [ListQuery.Item(name: "limit", value: "7"), .init(name: "before", value: before)]
            let page = try await zone.service.read(
                .local("main"),
                ZoneQuestion { reader in
                    let history = RecordHistory(of: try reader.schema.table("note"), reader)
                    return try history.json(JSONText.quote(code), PageQuery(query))
                })
            let members = Dictionary(
                uniqueKeysWithValues: (JSONParts.members(of: page) ?? []).map { ($0.name, $0.value) })
            for item in JSONParts.elements(of: members["history"] ?? "[]") ?? [] {
                let parts = Dictionary(
                    uniqueKeysWithValues: (JSONParts.members(of: item) ?? []).map { ($0.name, $0.value) })
                let operation = JSONText.unquote(parts["operation"] ?? "")
                items.append("\(parts["revision"] ?? "") \(operation) \(parts["before"] ?? "") \(parts["after"] ?? "")")
            }
            guard let next = members["next"], next != "null" else { return items }
            before = next
        }
    }
}
