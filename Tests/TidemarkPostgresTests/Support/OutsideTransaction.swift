import Foundation
import StoreTestSupport
import Testing

/// A revision, repeated by plain SQL as another program would.
struct OutsideTransaction {
    private let body: [String: Any]

    init(_ revision: String) throws {
        let parsed = try JSONSerialization.jsonObject(with: Data(revision.utf8))
        body = try #require(parsed as? [String: Any])
    }

    func run(_ pg: OtherProgram) async throws {
        let types = try #require(body["types"] as? [String])
        try await pg.execute("BEGIN; SET CONSTRAINTS ALL DEFERRED")
        // Ranks are checked row by row, and may move between records.
        for table in types where table == "team" {
            let keys = try keys(table, "update").filter { key in try columns(table, key).contains { $0.name == "rank" }
            }.map { "\($0[0])" }
            guard !keys.isEmpty else { continue }
            try await pg.execute("UPDATE team SET rank = NULL WHERE id IN (\(keys.joined(separator: ",")))")
        }
        for table in types { for key in keys(table, "delete") { try await delete(table, key, pg) } }
        for table in types { for key in keys(table, "create") { try await create(table, key, pg) } }
        for table in types { for key in keys(table, "update") { try await update(table, key, pg) } }
        try await pg.execute("COMMIT")
    }

    private func part(_ table: String) -> [String: Any] { body[table] as? [String: Any] ?? [:] }

    private func keys(_ table: String, _ operation: String) -> [[Any]] {
        (part(table)[operation] as? [Any] ?? []).map { $0 as? [Any] ?? [$0] }
    }

    private static let keyColumns = [
        "team": ["id"], "player": ["id"], "tag": ["name"], "player_tag": ["player_id", "tag"],
        "contract": ["player_id"], "medal": ["id"],
    ]

    private func columns(_ table: String, _ key: [Any]) throws -> [(name: String, value: Any)] {
        let name =
            switch key.count {
            case 1: "\(key[0])"
            default: String(decoding: try JSONSerialization.data(withJSONObject: key), as: UTF8.self)
            }
        let attributes = part(table)["attributes"] as? [String: [String: Any]] ?? [:]
        return try #require(attributes[name], "\(table) \(name)").filter { $0.key != "revision" }.sorted {
            $0.key < $1.key
        }.map { (name: $0.key, value: $0.value) }
    }

    private func delete(_ table: String, _ key: [Any], _ pg: OtherProgram) async throws {
        try await pg.execute("DELETE FROM \(table) WHERE \(match(table, key))")
    }

    private func create(_ table: String, _ key: [Any], _ pg: OtherProgram) async throws {
        let names = Self.keyColumns[table, default: []]
        let values = try columns(table, key)
        try await pg.execute(
            """
            INSERT INTO \(table) (\((names + values.map(\.name)).joined(separator: ", ")))
            VALUES (\((key + values.map(\.value)).map(literal).joined(separator: ", ")))
            """
        )
    }

    private func update(_ table: String, _ key: [Any], _ pg: OtherProgram) async throws {
        let targets = try columns(table, key).map { "\($0.name) = \(literal($0.value))" }
        try await pg.execute("UPDATE \(table) SET \(targets.joined(separator: ", ")) WHERE \(match(table, key))")
    }

    private func match(_ table: String, _ key: [Any]) -> String {
        zip(Self.keyColumns[table, default: []], key).map { "\($0) = \(literal($1))" }.joined(separator: " AND ")
    }

    private func literal(_ value: Any) -> String {
        switch value {
        case is NSNull: "NULL"
        case let text as String: "'\(text.replacing("'", with: "''"))'"
        case let tagged as [String: Any]: "decode('\(tagged["$blob"] ?? "")', 'base64')"
        default: "\(value)"
        }
    }
}
