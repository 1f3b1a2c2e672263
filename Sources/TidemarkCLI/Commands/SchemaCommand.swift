import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL
import TidemarkEmbedded
import TidemarkTerminal

/// `tidemark schema`: shows the synced tables of a file or a server, and their differences.
struct SchemaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Show the synced tables of a server or a file, and what the other side lacks.",
        discussion: """
            For a device's file, it compares the tables with the zone's last known schema: columns that only the zone \
            has wait for the app's migration, and columns that only the file has wait for the server's. For a server \
            and a served file, it shows the conflict policies other than `reject`. It changes nothing.

              tidemark schema http://127.0.0.1:8080
              tidemark schema phone.sqlite
            """)
    @Argument(help: "A SQLite file, or a server's URL.") var source: String
    @Flag(help: "Print JSON.") var json = false
    @OptionGroup var access: ServerAccess

    func run() async throws {
        try await Terminal.run {
            if source.hasPrefix("http://") || source.hasPrefix("https://") { return try await showServer() }
            try ExistingFile.require(source)
            if try await OpenDevice.reading(at: source, { try $0.tableExists("tidemark_device") }) {
                return try show(try await OpenDevice.reading(at: source) { try SchemaReport($0) })
            }
            let schema = try await OpenDevice.reading(at: source) { try SchemaIntrospection.syncedSchema(in: $0) }
            let shape = schema.shape.split(separator: "\n").map(String.init)
            let policies = schema.policies.mapValues(\.rawValue)
            if json { return try Terminal.json(Shape(shape: shape, policies: policies)) }
            show(shape, policies)
        }
    }

    private func showServer() async throws {
        let answer = try await access.transport(to: source).schema(zone: "main")
        let object = try JSONSerialization.jsonObject(with: Data(answer)) as? [String: Any] ?? [:]
        if json { return try Terminal.json(object: object) }
        var policies: [String: String] = [:]
        for table in object["tables"] as? [[String: Any]] ?? [] {
            guard let name = table["name"] as? String else { continue }
            policies[name] = table["policy"] as? String
            for (column, policy) in table["columnPolicies"] as? [String: String] ?? [:] {
                policies["\(name).\(column)"] = policy
            }
        }
        show(
            object["shape"] as? [String] ?? [], policies.filter { !$1.isEmpty && ($0.contains(".") || $1 != "reject") })
    }

    /// The JSON output for a file that is no device's.
    private struct Shape: Encodable {
        let shape: [String]
        let policies: [String: String]
    }

    private func show(_ shape: [String], _ policies: [String: String]) {
        for line in shape { Terminal.line(line) }
        for (name, policy) in policies.sorted(by: { $0.key < $1.key }) { Terminal.line("policy of \(name): \(policy)") }
    }

    private func show(_ report: SchemaReport) throws {
        if json { return try Terminal.json(report) }
        for table in report.tables {
            Terminal.line("\(table.name)(\(table.columns.joined(separator: ", ")))")
            for (own, wire) in table.renamed.sorted(by: { $0.key < $1.key }) {
                Terminal.line("  \(own) is \(wire) at the server")
            }
            if table.changesIDs {
                Terminal.line("  a new record can get another id at the sync: its key is no AUTOINCREMENT here")
            }
            list("  only the server has", names: table.unknownColumns, note: "kept until the app has them")
            list("  only this file has", names: table.unservedColumns, note: "sent when the server has them")
        }
        list("only the server has the tables", names: report.unknownTables, note: "kept until the app has them")
        list("only this file has the tables", names: report.unservedTables, note: "not synced")
        for (name, reason) in report.leftOut.sorted(by: { $0.key < $1.key }) {
            Terminal.line("left out of this file: \(name): \(reason)")
        }
        for problem in report.problems { Terminal.line("cannot sync: \(problem)") }
    }

    private func list(_ owner: String, names: [String], note: String) {
        guard !names.isEmpty else { return }
        Terminal.line("\(owner) \(names.joined(separator: ", ")): \(note)")
    }
}
