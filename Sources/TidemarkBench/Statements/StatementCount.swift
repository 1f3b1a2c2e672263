import Foundation
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// The SQL statements of one request, on real files.
///
/// Each step first runs once without being counted, so that what a connection or a file needs only once does not
/// count. Only opening a device's file counts with it, because each command of `tidemark device` opens it.
package struct StatementCount: Sendable {
    /// A step and its statements, in their order.
    package struct Step: Sendable {
        /// The step, in words.
        package let name: String
        /// The SQL of the statements, without values.
        package let statements: [String]
    }

    private let cluster: Cluster
    private let zone = "main"
    private static let device = "00000000-0000-4000-8000-000000000001"

    /// Counts the statements of all steps; nothing else may run in the process.
    package static func all() async throws -> [Step] {
        try StatementTrace.start()
        return try await StatementCount(cluster: Cluster(schema: schema, seed: seed)).steps()
    }

    private static let schema = """
        CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE item (id INTEGER PRIMARY KEY, list_id INTEGER NOT NULL REFERENCES list, text TEXT NOT NULL)
        """
    private static let seed = "INSERT INTO list VALUES (1, 'a'); INSERT INTO item VALUES (1, 1, 'b'), (2, 1, 'c')"

    /// Creates an item in a new list, under temporary ids of this round.
    private static func twoRecords(_ round: Int) -> String {
        let list = -1 - 2 * round
        let item = list - 1
        return #""list":{"create":[\#(list)],"attributes":{"\#(list)":{"name":"d"}}},"#
            + #""item":{"create":[\#(item)],"attributes":{"\#(item)":{"list_id":\#(list),"text":"e"}}}"#
    }

    /// Changes both items that the zone began with.
    private static let bothItems = """
        "item":{"update":[1,2],"attributes":{"1":{"text":"f"},"2":{"text":"g"}}}
        """

    private func steps() async throws -> [Step] {
        let device = try await cluster.device("device")
        let isOfDevice = { (file: String) in file != cluster.zonePath }
        return [
            try await step("a push of two records") { round, head in try await push(Self.twoRecords(round), at: head) },
            try await step("a refused push of two records", after: { try await push(Self.bothItems, at: $0) }) { _, _ in
                // The zone's first revision is older than every change of the items.
                try await push(Self.bothItems, at: 1)
            },
            try await step("a pull of one revision", after: { try await push(Self.bothItems, at: $0) }) { _, head in
                try await sync(at: head - 1, "")
            },
            try await step("an idle sync of a device", on: isOfDevice) { _, _ in try await device.engine.sync() },
            try await step("opening a device's file and one idle sync", on: isOfDevice) { _, _ in
                try await device.reopened().engine.sync()
            },
        ]
    }

    /// Runs a step twice, and returns the statements of the second time on the files that are counted.
    private func step(
        _ name: String, on isCounted: (String) -> Bool = { _ in true },
        after preparation: (_ head: Int64) async throws -> Void = { _ in },
        _ body: (_ round: Int, _ head: Int64) async throws -> Void
    ) async throws -> Step {
        var statements: [StatementTrace.Statement] = []
        for round in 0..<2 {
            try await preparation(head())
            let head = try await head()
            statements = try await StatementTrace.statements { try await body(round, head) }
        }
        return Step(name: name, statements: statements.filter { isCounted($0.file) }.map(\.sql))
    }

    /// The zone's latest revision.
    private func head() async throws -> Int64 { try await cluster.store.latest(zone: zone).revision }

    private func push(_ tables: String, at revision: Int64) async throws {
        try await sync(at: revision, #"{"id":"\#(RandomID.text())",\#(tables)}"#)
    }

    private func sync(at revision: Int64, _ changeSets: String) async throws {
        let body = #"{"maxRevision":\#(revision),"device":"\#(Self.device)","changeSets":[\#(changeSets)]}"#
        _ = try await cluster.store.sync(zone: zone, body: Array(body.utf8))
    }
}
