/// The bookkeeping tables that every store has for its zones, besides its own: `Docs/BOOKKEEPING.md`.
///
/// A file has one zone, and its tables begin with `tidemark_`. In PostgreSQL they are in the schema `tidemark`, and
/// every key begins with the zone. The texts have the signs of ``BookStatement``; `word` is a text in a key.
package enum BookTables {
    private struct Table {
        let name: String
        let columns: String
        var key = ""
        /// Whether SQLite keeps the rows in the key's order.
        var isSorted = false
        /// The names and columns of indexes.
        var indexes: KeyValuePairs<String, String> = [:]
    }

    private static let all = [
        Table(
            name: "zone",
            columns: """
                {id INTEGER PRIMARY KEY CHECK (id = 1), name text NOT NULL, |}epoch text NOT NULL,
                revision bigint NOT NULL, horizon bigint NOT NULL, adopted bigint NOT NULL,
                time bigint NOT NULL DEFAULT 0, notes bigint NOT NULL DEFAULT 0
                """),
        Table(name: "lineage", columns: "epoch word, ended bigint NOT NULL", key: "epoch"),
        Table(
            name: "revision",
            columns: """
                revision bigint, id text, device text, time bigint NOT NULL, body text NOT NULL,
                chain text NOT NULL DEFAULT '', user_id text, committed bigint NOT NULL DEFAULT 0
                """, key: "revision"),
        Table(
            name: "fingerprint", columns: "revision bigint, fingerprint text NOT NULL, shape text NOT NULL",
            key: "revision"),
        Table(
            name: "log",
            columns: """
                tbl word, key word, revision bigint, operation text NOT NULL, columns text,
                merged {INTEGER|boolean} NOT NULL DEFAULT {0|false}, replaced text, absorbed bigint
                """, key: "tbl, key, revision", isSorted: true, indexes: ["log_revision": "revision"]),
        Table(
            name: "verdict",
            columns: """
                id word, device text, hash text NOT NULL, revision bigint, after {text|text[]} NOT NULL, body text,
                ids text, as_sent {INTEGER|boolean} NOT NULL DEFAULT {0|false}
                """, key: "id", isSorted: true, indexes: ["verdict_revision": "revision"]),
        Table(
            name: "lap", columns: "device word, lap text NOT NULL, revision bigint NOT NULL, user_id text",
            key: "device", isSorted: true),
        Table(
            name: "refused",
            columns: """
                number {INTEGER PRIMARY KEY AUTOINCREMENT|bigint}, id text NOT NULL, decided bigint NOT NULL,
                base bigint NOT NULL, sent text
                """, key: "{|number}"),
        Table(
            name: "contact",
            columns: """
                device word, name text, user_id text, first bigint NOT NULL, last bigint NOT NULL, revision bigint
                """, key: "device", isSorted: true),
        Table(
            name: "idmap", columns: "device word, tbl word, temporary bigint, permanent bigint NOT NULL",
            key: "device, tbl, temporary", isSorted: true),
        Table(name: "identity", columns: "tbl word, next bigint NOT NULL", key: "tbl", isSorted: true),
        Table(
            name: "overruled",
            columns: """
                number {INTEGER PRIMARY KEY AUTOINCREMENT|bigint}, device word{ NOT NULL|}, revision bigint NOT NULL,
                records text NOT NULL
                """, key: "{|device, number}",
            indexes: ["{overruled_device|overruled_revision}": "{device, number|revision}"]),
    ]

    /// Makes the tables that a zone's file lacks.
    package static let sqlite = statements(\.sqlite, schema: "", prefix: "tidemark_", zone: "")
        .replacing(#/\bbigint\b/#, with: "INTEGER").replacing(#/\bword\b/#, with: "TEXT")

    /// Makes the tables that a database lacks.
    package static let postgres = statements(\.postgres, schema: "tidemark.", prefix: "", zone: "zone")
        .replacing(#/\bword\b/#, with: #"text COLLATE "C""#)

    private static func statements(
        _ side: KeyPath<BookStatement, String>, schema: String, prefix: String, zone: String
    ) -> String {
        let text = { (signs: String) in BookStatement(signs)[keyPath: side] }
        let list = { (parts: [String]) in parts.filter { !$0.isEmpty }.joined(separator: ", ") }
        return all.flatMap { table in
            let key = list([zone, text(table.key)])
            let parts = [
                zone.isEmpty ? "" : "\(zone) word", text(table.columns), key.isEmpty ? "" : "PRIMARY KEY (\(key))",
            ]
            let name = "\(schema)\(prefix)\(table.name)"
            let ending = table.isSorted && zone.isEmpty ? " WITHOUT ROWID" : ""
            return ["CREATE TABLE IF NOT EXISTS \(name) (\n\(list(parts))\n)\(ending);"]
                + table.indexes.map { index in
                    let columns = list([zone, text(index.value)])
                    return "CREATE INDEX IF NOT EXISTS \(prefix)\(text(index.key)) ON \(name) (\(columns));"
                }
        }.joined(separator: "\n")
    }
}
