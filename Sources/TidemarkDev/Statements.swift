import ArgumentParser
import Foundation
import TidemarkBench
import TidemarkTerminal

/// `tidemark-dev statements`: counts the SQL of one request.
struct Statements: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Count the SQL statements of a push, a refusal, a pull and an idle sync.",
        discussion: """
            They run on real files of the embedded store and of a device, on connections that are warm. The numbers \
            are exact and the same on every machine. The budgets in Tests/TidyTests/Budgets.swift hold them.
            """)

    @Flag(help: "Print every statement.") var list = false
    @Flag(help: "Print the numbers as JSON.") var json = false

    func run() async throws {
        try await Terminal.run {
            let steps = try await StatementCount.all()
            if json {
                let counts = Dictionary(uniqueKeysWithValues: steps.map { ($0.name, $0.statements.count) })
                let encoder = JSONEncoder()
                encoder.outputFormatting = .sortedKeys
                return Terminal.line(String(decoding: try encoder.encode(counts), as: UTF8.self))
            }
            for step in steps {
                Terminal.line("\(step.statements.count) statements: \(step.name)")
                if list { for sql in step.statements { Terminal.line("    \(sql)") } }
            }
        }
    }
}
