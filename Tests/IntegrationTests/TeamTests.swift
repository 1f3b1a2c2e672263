import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// Fifty people with their own tokens and different rights on one zone, over TLS.
    @Suite(.timeLimit(.minutes(120))) struct TeamTests {
        private static let schema = """
            CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
            CREATE TABLE item (
                id INTEGER PRIMARY KEY, list_id INTEGER NOT NULL REFERENCES list ON DELETE CASCADE,
                text TEXT NOT NULL, author TEXT NOT NULL);
            CREATE INDEX item_list ON item (list_id);
            """
        private static let peopleCount = 50
        /// The records that each person creates.
        private static let recordsEach = Effort.count("TIDEMARK_TEAM_RECORDS", short: 6, long: 600)
        private static let recordsPerTransaction = 250

        /// A member with a device.
        private struct Member: Sendable {
            let name: String
            let role: String
            let database: DatabaseQueue
            let engine: SyncEngine

            var mayWrite: Bool { role != "reader" }

            /// Creates a list with items in several transactions.
            func write() async throws {
                for start in stride(from: 0, to: recordsEach, by: recordsPerTransaction) {
                    let count = min(recordsPerTransaction, recordsEach - start)
                    try await database.write { [name] db in
                        try db.execute(sql: "INSERT INTO list (title) VALUES (?)", arguments: [name])
                        let list = db.lastInsertedRowID
                        for number in 1..<max(2, count) {
                            try db.execute(
                                sql: "INSERT INTO item (list_id, text, author) VALUES (?, ?, ?)",
                                arguments: [list, "\(name) \(start + number)", name])
                        }
                    }
                }
            }

            /// The number of the person's own items in the file.
            func ownCount() async throws -> Int {
                try await database.read { [name] db in
                    try Int.fetchOne(db, sql: "SELECT count(*) FROM item WHERE author = ?", arguments: [name]) ?? 0
                }
            }
        }

        private static func role(_ number: Int) -> String {
            switch number % 5 {
            case 0: number == 0 ? "owner" : "writer"
            case 1, 2: "reader"
            default: "writer"
            }
        }

        /// Adds a user with a role, signs a device in, and joins it.
        private static func join(_ number: Int, _ server: SecureServer) async throws -> Member {
            let name = "person\(number)"
            let workshop = server.workshop
            let added = try await workshop.json(
                "user", "add", name, "--role", role(number), "--data", workshop.path("data"), "--json")
            let token = try await server.exchange(try #require(added["token"] as? String), device: "\(name)'s phone")
            let transport = try HTTPTransport(
                url: server.url, credentials: .token(token), certificateAuthorities: server.certificate)
            let path = workshop.path("\(name).sqlite")
            _ = try await DeviceFileJoin(transport: transport, server: server.url).join(path: path)
            let database = try DatabaseQueue(path: path)
            return Member(
                name: name, role: role(number), database: database,
                engine: try await SyncEngine(database, server: server.url, transport: transport))
        }

        /// Runs a step for all members, a few at a time.
        private static func forEach(_ members: [Member], _ step: @escaping @Sendable (Member) async throws -> Void)
            async throws
        {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, member) in members.enumerated() {
                    if index >= 8 { try await group.next() }
                    group.addTask { try await step(member) }
                }
                try await group.waitForAll()
            }
        }

        @Test func `A1: fifty users share a zone over TLS by their rights, and all files end up equal`() async throws {
            let workshop = try Workshop()
            try workshop.write(Self.schema, to: "s.sql")
            let server = try await SecureServer.start(in: workshop)
            var members: [Member] = []
            for number in 0..<Self.peopleCount { members.append(try await Self.join(number, server)) }
            try await Self.forEach(members) { try await $0.write() }
            // The first round sends; the second brings what the others sent later.
            for _ in 0..<2 { try await Self.forEach(members) { try await $0.engine.sync() } }

            let writers = members.filter(\.mayWrite)
            let first = try await writers[0].database.zoneDigest()
            let records = try await writers[0].database.read { db in
                try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM list) + (SELECT count(*) FROM item)") ?? 0
            }
            #expect(records == writers.count * Self.recordsEach, "a writer's record is missing")
            let truth = try await HTTPTransport(
                url: server.url, credentials: .token(try await Self.operatorToken(server)),
                certificateAuthorities: server.certificate
            ).digest(zone: "main")
            #expect(first.hash == truth.hash)
            for member in members {
                let status = try await member.engine.status()
                #expect(status.pendingChangeSets == 0, "\(member.name)")
                let digest = try await member.database.zoneDigest()
                #expect(digest.hash == truth.hash, "\(member.name)")
                let conflicts = try await member.engine.conflicts()
                let rules = Set(conflicts.flatMap(\.reasons).map(\.rule))
                #expect(rules == (member.mayWrite ? [] : ["forbidden"]), "\(member.name)")
                let parked = conflicts.flatMap(\.records).count
                #expect(parked == (member.mayWrite ? 0 : Self.recordsEach), "\(member.name)")
                let own = try await member.ownCount()
                #expect((own > 0) == member.mayWrite, "a reader's rows are not in the zone")
            }
            Report.line("team: \(members.count) users over TLS, \(records) records, \(members.count) equal files")
            try await server.stopped()
        }

        /// A device token of one more member with the role reader.
        private static func operatorToken(_ server: SecureServer) async throws -> String {
            let path = server.workshop.path("data")
            let added = try await server.workshop.json(
                "user", "add", "auditor", "--role", "reader", "--data", path, "--json")
            return try await server.exchange(try #require(added["token"] as? String), device: "auditor")
        }
    }
}
