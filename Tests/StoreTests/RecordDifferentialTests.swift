import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Rule 5: for equal rows and questions, both stores answer with equal bytes.
@Suite struct RecordDifferentialTests {
    private static let schema = """
        CREATE TABLE team (code TEXT PRIMARY KEY NOT NULL, title TEXT, score REAL);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team TEXT REFERENCES team, name TEXT NOT NULL, goals INTEGER, weight REAL,
            is_captain BOOLEAN, photo BLOB, "$odd" TEXT);
        CREATE TABLE match (
            day TEXT NOT NULL, number INTEGER NOT NULL, home TEXT REFERENCES team, goals INTEGER,
            PRIMARY KEY (day, number));
        """

    private static let texts = ["'a'", "'A'", "'ä'", "''", "'a b'", "'a%_*'", "'\"\\'", "'{\"$'", "'zz'", "'😀'"]
    private static let integers = ["0", "-1", "5", "5", "9007199254740993", "-9223372036854775808", "NULL"]
    private static let reals = ["0.0", "-2.5", "1e300", "0.1", "0.1", "123456789012345680.0", "NULL"]
    private static let teams = ["'a'", "'B'", "'c,d'", "'é'"]

    private static let columns = [
        "team": ["code", "title", "score"],
        "player": ["id", "team", "name", "goals", "weight", "is_captain", "photo", "$odd"],
        "match": ["day", "number", "home", "goals"],
    ]
    private static let relations = [
        "team": ["player(*)", "player(id,name)", "match(day)"], "player": ["team(*)", "team(title)"],
        "match": ["home(code)", "home(*)"],
    ]

    /// Statements that make the same rows in both stores.
    private static func rows(_ random: inout SeededGenerator) -> [String] {
        var sql = teams.map {
            "INSERT INTO team VALUES (\($0), \(pick(texts + ["NULL"], &random)), \(pick(reals, &random)))"
        }
        for id in 1...25 {
            let photo = pick(["x''", "x'00'", "x'00ff'", "NULL"], &random)
            sql.append(
                """
                INSERT INTO player VALUES (\(id), \(pick(teams + ["NULL"], &random)), \(pick(texts, &random)),
                    \(pick(integers, &random)), \(pick(reals, &random)), \(pick(["0", "1", "NULL"], &random)), \(photo),
                    \(pick(texts + ["NULL"], &random)))
                """
            )
        }
        for number in 1...15 {
            let day = texts[number % texts.count]
            sql.append(
                """
                INSERT INTO match VALUES (
                    \(day), \(number), \(pick(teams + ["NULL"], &random)), \(pick(integers, &random)))
                """
            )
        }
        return sql
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func `rule 5: random questions have the same answers in both stores, byte for byte`(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let epoch = try #require(UUID(uuidString: "1b60e08c-0000-4000-8000-000000000001"))
        let sql = Self.schema + Self.rows(&random).joined(separator: ";")
        let file = try await Zone(.embedded, sql, epoch: epoch)
        let database = try await Zone(.postgres, sql, epoch: epoch)
        var answers = 0
        for number in 0..<250 {
            if number % 50 == 25 {
                let change = Self.change(at: try await file.revision(), &random)
                #expect(try await file.sync(change).revisions == database.sync(change).revisions)
            }
            let path = Self.question(&random)
            let left = try await Self.answer(path, of: file)
            let right = try await Self.answer(path, of: database)
            #expect(left == right, "\(path)")
            if left.hasPrefix("{") { answers += 1 }
            guard let next = left.firstMatch(of: /"next":"([^"]+)"/)?.output.1 else { continue }
            let further = "\(path)&after=\(next)"
            #expect(try await Self.answer(further, of: file) == Self.answer(further, of: database), "\(further)")
        }
        #expect(answers > 120, "most questions have answers")
        #expect(try await Self.log(of: file) == Self.log(of: database))
    }

    private static func answer(_ path: String, of zone: Zone) async throws -> String {
        do { return try await zone.json(path) } catch let error as TidemarkError { return error.code.rawValue }
    }

    /// What both stores say about their logs.
    private static func log(of zone: Zone) async throws -> [String] {
        try await zone.ask { reader in
            let entries = try reader.log.entries(after: LogPosition(revision: 0), limit: 100)
            let half = try entries.dropFirst(entries.count / 2).first.map {
                try reader.log.entries(
                    after: LogPosition(revision: $0.revision, table: $0.table, key: $0.key), limit: 3)
            }
            let player = try reader.schema.table("player")
            let revisions =
                try reader.log.revisions(before: 100, table: nil, author: nil, limit: 3)
                + reader.log.revisions(before: 4, table: "player", author: "d", limit: 3)
            return [
                "\(entries)", "\(half ?? [])", "\(try reader.log.history(of: "1", in: player, before: 100, limit: 2))",
                "\(revisions.map { "\($0.revision) \($0.device ?? "-") \($0.tables.sorted { $0.key < $1.key })" })",
                "\(try reader.log.changeSet(of: 2) ?? "-")", "\(try reader.devices())",
                "\(try reader.estimate(player))",
                "\(try reader.log.refusals(before: .max, limit: 5))",
            ]
        }
    }

    /// A change set of a device.
    private static func change(at revision: Int64, _ random: inout SeededGenerator) -> String {
        let id = Int.random(in: 1...25, using: &random)
        return """
            {"maxRevision":\(revision),"device":"d","changeSets":[{"types":["player"],\
            "player":{"update":[\(id)],"attributes":{"\(id)":{"goals":\(Int.random(in: 0...9, using: &random))}}}}]}
            """
    }

    // MARK: Random questions

    private static func question(_ random: inout SeededGenerator) -> String {
        let table = pick(columns.keys.sorted(), &random)
        let names = columns[table] ?? []
        if Int.random(in: 0..<8, using: &random) == 0 {
            return "tables/\(table)/\(table == "player" ? "7" : table == "team" ? "c%2Cd" : "a,10")"
        }
        var items = ["limit=\(Int.random(in: 1...30, using: &random))"]
        if Bool.random(using: &random) {
            let order = names.shuffled(using: &random).prefix(Int.random(in: 1...3, using: &random))
            items.append("order=" + order.map { $0 + pick(["", ".asc", ".desc"], &random) }.joined(separator: ","))
        }
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            items.append(Bool.random(using: &random) ? group(names, &random) : filter(names, "=", &random))
        }
        if Int.random(in: 0..<3, using: &random) == 0 {
            var selected = names.shuffled(using: &random).prefix(3).joined(separator: ",")
            if Bool.random(using: &random) { selected += "," + pick(relations[table] ?? [], &random) }
            items.append("select=\(selected)")
        } else if Int.random(in: 0..<4, using: &random) == 0 {
            items.append("truncate=\(Int.random(in: 1...3, using: &random))")
        }
        if Int.random(in: 0..<4, using: &random) == 0 { items.append("count=\(pick(["exact", "estimate"], &random))") }
        return "tables/\(table)?" + items.joined(separator: "&")
    }

    private static func group(_ names: [String], _ random: inout SeededGenerator) -> String {
        let parts = (0..<Int.random(in: 1...3, using: &random)).map { _ in filter(names, ".", &random) }
        let list = parts.joined(separator: ",")
        return pick(
            ["or=(\(list))", "and=(\(list))", "or=(id.eq.1,and(\(list)))", "or=(and(\(list)),or(\(list)))"],
            &random
        )
    }

    private static func filter(_ names: [String], _ sign: String, _ random: inout SeededGenerator) -> String {
        let name = pick(names, &random)
        let not = pick(["", "", "not."], &random)
        let isText = ["team", "name", "code", "title", "$odd", "day", "home"].contains(name)
        switch Int.random(in: 0..<8, using: &random) {
        case 0: return "\(name)\(sign)\(not)is.null"
        case 1: return "\(name)\(sign)\(not)in.(\(value(name, &random)),\(value(name, &random)))"
        case 2 where isText:
            return "\(name)\(sign)\(not)like.\(pick(["a*", "*", "*%25*", "*_*", "", "*\\*", "A", "?*"], &random))"
        default:
            let comparison = pick(["eq", "neq", "gt", "gte", "lt", "lte"], &random)
            return "\(name)\(sign)\(not)\(comparison).\(value(name, &random))"
        }
    }

    private static func value(_ name: String, _ random: inout SeededGenerator) -> String {
        switch name {
        case "is_captain": pick(["0", "1"], &random)
        case "photo": pick([#"{"$blob":""}"#, #"{"$blob":"AP8="}"#, #"{"$blob":"AA=="}"#], &random)
        case "id", "goals", "number", "weight", "score":
            pick(
                ["0", "5", "-1", "2.5", "0.1", "1e300", "9007199254740993", #"{"$int":"-9223372036854775808"}"#],
                &random
            )
        default: pick(["a", "A", "%C3%A4", "", "a b", #""{\"$""#, #""c,d""#, "zz", "%F0%9F%98%80", "5"], &random)
        }
    }

    private static func pick(_ list: [String], _ random: inout SeededGenerator) -> String {
        list[Int.random(in: 0..<list.count, using: &random)]
    }
}
