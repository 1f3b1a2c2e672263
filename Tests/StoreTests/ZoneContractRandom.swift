import Foundation
import StoreTestSupport
import Testing
import TidemarkTestSupport

@testable import TidemarkCore
@testable import TidemarkEngine

/// Random requests: the model finds where the stores differ.
extension ZoneContractTests {
    /// Makes requests of two devices, which are up to date or some revisions behind.
    private struct RandomRequests {
        var random: SeededGenerator
        var number = 0
        var latest: Int64 = 0
        var temporary = 0

        mutating func pick<Element>(_ list: [Element]) -> Element { list[Int.random(in: list.indices, using: &random)] }

        mutating func request() -> ZoneRequest {
            let revision = max(0, latest - pick([0, 0, 0, 1, 2, 5] as [Int64]))
            let sets = (0..<pick([1, 1, 1, 2, 3])).map { _ in changeSet() }
            let body = JSONText.object([
                ("maxRevision", "\(revision)"), ("device", pick([#""a""#, #""b""#, #""c""#])),
                ("echo", pick([#""all""#, #""ids""#])), ("changeSets", JSONText.array(sets)),
            ])
            return ZoneRequest(.sync(Array(body.utf8)), access: .local("main"))
        }

        mutating func changeSet() -> String {
            number += 1
            var created: [String: [String]] = [:]
            var parts: [String: [String: [String]]] = [:]
            var attributes: [String: [String]] = [:]
            var named: Set<String> = []
            for _ in 0..<pick([1, 1, 2, 3, 5]) {
                let table = pick(["team", "team", "player", "player", "cup", "season"])
                let operation = pick(["create", "create", "update", "update", "delete"])
                let key = key(table, operation, created)
                guard named.insert("\(table) \(key)").inserted else { continue }
                if operation == "create" { created[table, default: []].append(key) }
                parts[table, default: [:]][operation, default: []].append(key)
                guard operation != "delete" else { continue }
                let name = table == "cup" ? key : JSONText.quote(key)
                attributes[table, default: []].append("\(name):{\(values(table, operation, created))}")
            }
            let tables = parts.sorted { $0.key < $1.key }.map { table, operations in
                let lists = operations.sorted { $0.key < $1.key }.map { ($0.key, JSONText.array($0.value)) }
                let object = "{\(attributes[table, default: []].joined(separator: ","))}"
                return (table, JSONText.object(lists + [("attributes", object)]))
            }
            let id = "6f6d3a4e-0000-4000-8000-\(100_000_000_000 + number)"
            return JSONText.object([("id", JSONText.quote(id))] + tables)
        }

        private mutating func key(_ table: String, _ operation: String, _ created: [String: [String]]) -> String {
            switch table {
            case "cup": return pick(["\"gold\"", "\"tin\"", "\"zinc\""])
            case "season": return "[\(pick([1, 2, 3, 4])),\(pick([1999, 2000]))]"
            default:
                guard operation == "create" else { return "\(pick(Array(1...6)))" }
                temporary -= 1
                return "\(temporary)"
            }
        }

        private mutating func reference(_ table: String, _ created: [String: [String]]) -> String {
            pick(created[table, default: []] + ["1", "2", "3", "4", "5", "null"])
        }

        private mutating func values(_ table: String, _ operation: String, _ created: [String: [String]]) -> String {
            var members: [String] = []
            let isNew = operation == "create"
            switch table {
            case "team":
                if isNew || Bool.random(using: &random) {
                    members.append(#""name":"\#(pick(["Kiel", "Ulm", "Trier", "Bonn", "Aue", "Köln"]))""#)
                }
                if Bool.random(using: &random) { members.append(#""rank":\#(pick(["1", "2", "null"]))"#) }
                if Bool.random(using: &random) { members.append(#""note":\#(pick([#""x""#, #""\"\n""#, "null"]))"#) }
            case "player":
                if isNew || Bool.random(using: &random) { members.append(#""name":"\#(pick(["Anna", "Ben"]))""#) }
                if Bool.random(using: &random) { members.append(#""team_id":\#(reference("team", created))"#) }
                if Bool.random(using: &random) { members.append(#""mentor_id":\#(reference("player", created))"#) }
            case "cup":
                if Bool.random(using: &random) { members.append(#""team_id":\#(reference("team", created))"#) }
                if Bool.random(using: &random) { members.append(#""year":\#(pick(["1999", "2000"]))"#) }
            default:
                if Bool.random(using: &random) {
                    members.append(#""points":\#(pick(["1.5", "1e300", "0.1", "null"]))"#)
                }
            }
            return members.joined(separator: ",")
        }
    }

    @Test(arguments: 1...UInt64(Effort.count("TIDEMARK_DIFFERENTIAL_SEEDS", short: 3, long: 12)))
    func `random requests have the same answers on the model and on both stores, byte for byte`(seed: UInt64)
        async throws
    {
        let epoch = try #require(UUID(uuidString: "1b60e08c-0000-4000-8000-000000000001"))
        var zones: [SeamZone] = []
        let policies: [String: ConflictPolicy] = seed % 2 == 0 ? ["team": .columns, "player": .lastWriter] : [:]
        for kind in [SeamZone.Kind.model, .postgres, .embedded] {
            zones.append(try await SeamZone(kind, Self.schema, epoch: epoch, policies: policies, gapless: true))
        }
        var requests = RandomRequests(random: SeededGenerator(seed: seed))
        for number in 0..<120 {
            let group = (0..<requests.pick([1, 1, 1, 2, 4])).map { _ in requests.request() }
            let model = try await zones[0].answer(group).map(Self.text)
            for zone in zones.dropFirst() {
                let answers = try await zone.answer(group).map(Self.text)
                guard answers == model else {
                    let sent = group.map { String(decoding: $0.text, as: UTF8.self) }.joined(separator: "\n")
                    Issue.record("\(number) of \(zone.kind):\n\(sent)\nmodel:\n\(model)\n\(zone.kind):\n\(answers)")
                    return
                }
            }
            requests.latest = try await zones[0].transaction { try $0.head().state.revision }
        }
        #expect(requests.latest > 40, "some requests are accepted")
    }
}
