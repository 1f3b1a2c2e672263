import Testing
import TidemarkCore

@Suite struct SyncSchemaTests {
    @Test func `parents are written before children, whatever the order of declaration`() {
        let schema = SyncSchema(tables: [
            table("scores", referringTo: ["players", "games"]), table("players", referringTo: ["teams"]),
            table("games"), table("teams"),
        ])
        #expect(schema.tables.map(\.name) == ["games", "teams", "players", "scores"])
    }

    @Test func `a self-reference does not affect the order of tables`() {
        let schema = SyncSchema(tables: [table("nodes", referringTo: ["nodes"]), table("roots")])
        #expect(schema.tables.map(\.name) == ["nodes", "roots"])
    }

    @Test func `two tables that reference each other both stay, after their parents`() {
        let schema = SyncSchema(tables: [
            table("teams", referringTo: ["players", "leagues"]), table("players", referringTo: ["teams"]),
            table("leagues"), table("goals", referringTo: ["players"]),
        ])
        #expect(schema.tables.map(\.name) == ["leagues", "teams", "players", "goals"])
        #expect(schema.byName.count == 4)
    }

    @Test func `a reference to a table outside the zone does not affect the order`() {
        let schema = SyncSchema(tables: [table("notes", referringTo: ["local_settings"])])
        #expect(schema.tables.map(\.name) == ["notes"])
    }

    @Test func `a chain of a hundred tables has one order, whatever the order of declaration`() {
        let chain = (0..<100).map { number in table("t\(number)", referringTo: number == 0 ? [] : ["t\(number - 1)"]) }
        let expected = chain.map(\.name)
        #expect(SyncSchema(tables: chain).tables.map(\.name) == expected)
        #expect(SyncSchema(tables: chain.reversed()).tables.map(\.name) == expected)
    }

    @Test func `the referencing tables of a table are listed, itself included`() {
        let schema = SyncSchema(tables: [
            table("nodes", referringTo: ["nodes"]), table("leaves", referringTo: ["nodes"]), table("birds"),
        ])
        #expect(schema.references(to: "nodes").map(\.child.name).sorted() == ["leaves", "nodes"])
        #expect(schema.references(to: "birds").isEmpty)
    }

    @Test func `the schema hash does not depend on the order of tables or columns`() {
        let one = SyncSchema(tables: [table("a", columns: ["x", "y"]), table("b")])
        let other = SyncSchema(tables: [table("b"), table("a", columns: ["y", "x"])])
        #expect(one.shape == other.shape)
    }

    @Test func `the schema hash differs for another column, type, key or table`() {
        let shapes = [
            [table("a")], [table("b")], [table("a"), table("b")], [table("a", columns: ["x"])],
            [table("a", columns: ["x"], type: "INTEGER")], [table("a", columns: ["x"], key: "x")],
        ].map { SyncSchema(tables: $0).shape }
        #expect(Set(shapes).count == shapes.count)
    }

    @Test func `a policy applies to its own table only`() {
        let schema = SyncSchema(tables: [table("a"), table("b")], policies: ["a": .columns])
        #expect(schema.policy(of: "a") == .columns)
        #expect(schema.policy(of: "b") == .reject)
    }

    @Test func `a key column is not a value column`() {
        let table = table("a", columns: ["x", "y"])
        #expect(table.valueColumns.map(\.name) == ["x", "y"])
        #expect(table.columns.map(\.name) == ["id", "x", "y"])
    }

    @Test func `an unsuitable schema lists all problems, each with its cure`() {
        let text = UnsyncableSchema(problems: [
            SchemaProblem(table: "log", reason: "has no primary key", cure: "ALTER\nTWO"),
            SchemaProblem(table: "log", column: "revision", reason: "is reserved", cure: "RENAME"),
        ]).description
        #expect(
            text == """
                This schema cannot be synced as it is (2 problems).
                  log: has no primary key
                    cure:
                      ALTER
                      TWO
                  log.revision: is reserved
                    cure:
                      RENAME
                """
        )
    }

    @Test(arguments: ["a", "b"])
    func `a column renamed twice at the zone is found under each of its names`(mine: String) {
        let served = SyncSchema(
            tables: [table("notes", columns: ["c"])], history: SchemaHistory(renames: ["notes": ["a": "c", "b": "c"]]))
        let common = SchemaComparison(
            local: [table("notes", columns: [mine])], served: served,
            renames: mine == "b" ? [ColumnRename(table: "notes", old: "a", new: "b")] : []
        ).common
        let others = ["a", "b", "c"].filter { $0 != mine }
        let aliases = Dictionary(uniqueKeysWithValues: others.map { ($0, mine) })
        #expect(common.history.renames["notes"] == aliases)
        #expect(common.difference.wireNames["notes"] == [mine: "c"])
        #expect(common.difference.unknownColumns.isEmpty)
        #expect(common.difference.unservedColumns.isEmpty)
    }

    @Test func `an app that skipped a version finds a column through both renames`() {
        let common = SchemaComparison(
            local: [table("notes", columns: ["c"])],
            served: SyncSchema(tables: [table("notes", columns: ["a"])]),
            renames: [
                ColumnRename(table: "notes", old: "a", new: "b"), ColumnRename(table: "notes", old: "b", new: "c"),
            ]
        ).common
        #expect(common.difference.wireNames["notes"] == ["c": "a"])
        #expect(common.difference.unservedColumns.isEmpty)
        #expect(common.history.renames["notes"] == ["a": "c", "b": "c"])
    }

    @Test func `a new column under another column's former name is not confused with it`() {
        let common = SchemaComparison(
            local: [table("notes", columns: ["content", "title"])],
            served: SyncSchema(tables: [table("notes", columns: ["body", "text"])]),
            renames: [
                ColumnRename(table: "notes", old: "text", new: "body"),
                ColumnRename(table: "notes", old: "body", new: "content"),
                ColumnRename(table: "notes", old: "text", new: "title"),
            ]
        ).common
        #expect(common.difference.wireNames["notes"] == ["content": "body", "title": "text"])
    }

    private func table(
        _ name: String, referringTo parents: [String] = [], columns: [String] = [], type: String = "TEXT",
        key: String = "id"
    ) -> SyncedTable {
        let references = parents.map {
            SyncedTable.Reference(columns: ["\($0)_id"], parent: $0, parentColumns: ["id"], onDelete: .noAction)
        }
        return SyncedTable(
            name: name,
            columns: (["id"] + columns).map { .init(name: $0, type: type, isNotNull: false, defaultSQL: nil) },
            key: [key], keyKind: .text, isAutoincrement: false, references: references, uniques: [], sql: "",
            indexSQL: [])
    }
}
