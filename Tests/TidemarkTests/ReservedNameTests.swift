import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Tables and columns may have the names of the protocol's own members.
@Suite struct ReservedNameTests {
    /// Every member of a change set, of a table's part and of a record is a table here, and a column.
    private static let names = WireName.changeSetMembers.union(WireName.tableMembers).union(WireName.recordMembers)
        .union(["=", "=revision", "==x"]).sorted()
    private static let columns = names.filter { $0 != "id" }

    private static let schema = names.map { name -> String in
        let list = columns.map { "\"\($0)\" TEXT" }.joined(separator: ", ")
        return """
            CREATE TABLE "\(name)" ("id" INTEGER PRIMARY KEY, \(list), parent INTEGER REFERENCES "\(name)",
                "=p" INTEGER REFERENCES "\(name)" ON DELETE SET NULL);
            INSERT INTO "\(name)" ("id", "revision") VALUES (1, 'seed')
            """
    }.joined(separator: ";")

    private static func pair(_ policies: [String: ConflictPolicy] = [:]) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, policies: policies)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    @Test func `tables and columns named like the protocol's members are created, edited and deleted`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        for name in Self.names {
            let values = Self.columns.map { "'\($0)!'" }.joined(separator: ", ")
            let list = Self.columns.map { "\"\($0)\"" }.joined(separator: ", ")
            try await anna.write(
                """
                INSERT INTO "\(name)" (\(list)) VALUES (\(values));
                INSERT INTO "\(name)" (parent, "=p") SELECT max(id), max(id) FROM "\(name)"
                """
            )
            try await ben.write("UPDATE \"\(name)\" SET \"revision\" = 'ben', \"=revision\" = 'eq' WHERE id = 1")
        }
        try await cluster.converge(anna, ben)
        for name in Self.names {
            #expect(
                try await ben.rows("SELECT \"revision\", \"__oldId__\", \"=\", \"==x\" FROM \"\(name)\" WHERE id = 2")
                    == ["revision!|__oldId__!|=!|==x!"])
            #expect(
                try await anna.rows("SELECT \"revision\", \"=revision\" FROM \"\(name)\" WHERE id = 1") == ["ben|eq"])
            #expect(try await ben.rows("SELECT parent, \"=p\" FROM \"\(name)\" WHERE id = 3") == ["2|2"])
            try await anna.write("DELETE FROM \"\(name)\" WHERE id = 3")
        }
        try await cluster.converge(anna, ben)
        try cluster.writeOutside("UPDATE types SET conflict = 'outside', \"revision\" = NULL")
        try await cluster.converge(anna, ben)
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `a conflict in a column called revision names it, and a retry writes it`() async throws {
        let (cluster, anna, ben) = try await Self.pair(["types": .columns])
        try await anna.write("UPDATE types SET \"revision\" = 'anna'")
        try await ben.write("UPDATE types SET \"revision\" = 'ben', \"=revision\" = 'kept'")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.columns) == [["revision"]])
        let mine = try #require(conflict.records.first?.mine)
        #expect(try MergedRecord.columns(json: mine)["revision"] == "ben".databaseValue)
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT \"revision\", \"=revision\" FROM types") == ["ben|kept"])
    }

    @Test func `an overruled value of a column called revision is kept and restored`() async throws {
        let (cluster, anna, ben) = try await Self.pair(["id": .lastWriter])
        try await anna.write("UPDATE \"id\" SET \"revision\" = 'anna'")
        try await ben.write("UPDATE \"id\" SET \"revision\" = 'ben'")
        for device in [anna, ben, anna] { try await device.engine.sync() }
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.map(\.columns) == [["revision"]])
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT \"revision\" FROM \"id\"") == ["anna"])
    }
}
