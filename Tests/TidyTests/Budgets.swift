import Foundation
import Testing

extension Budget {
    /// The lines of the product, which ``isProduct(_:)`` defines; comments and empty lines count.
    static let product = Budget("lines of the product", 67_874, cure: lines)
    /// The lines of the targets that answer a request: ``serverTargets``.
    static let server = Budget("lines of the server", 42_107, cure: lines)
    private static let lines = "Remove what the change replaces, in the same change."

    /// The requirements of the protocols that a store implements: ``SeamProtocol``.
    static let seam = Budget(
        "functions and properties that a store implements", 49,
        cure: "Write the rule once above the seam, in TidemarkEngine.")

    /// The exits: an exit is a function of the seam whose result can hold rows, keys or log entries, as
    /// ``SeamProtocol/exits`` tells by its type.
    static let exits = Budget(
        "functions by which rows or the log leave a store", 7,
        cure: "Answer from a function that there is, such as the readers of rows and of the log.")
    /// The routes that answer members of a zone with its rows, its log or what follows from them.
    static let routes = Budget(
        "routes about the rows of a zone", 22, cure: "Let a route that there is answer, perhaps with another parameter."
    )

    /// The files of the largest knot of a target, counted with members of extensions; 5 for every other target.
    static let knots = [
        "Tidemark": knot(9), "TidemarkHistory": knot(28), "TidemarkSimulation": knot(17),
    ]
    static func knot(_ files: Int) -> Budget {
        Budget("files that need each other", files, cure: "Move what two files share into a third that needs neither.")
    }

    /// The source files whose functions run while the server answers a push of two records.
    static let path = Budget("source files on the path of a push", 55, cure: "`make path` prints them.")

    /// The same for a PATCH of one record over REST.
    static let patchPath = Budget("source files on the path of a PATCH", 67, cure: "`make path` prints them.")

    /// The statements of one request: `tidemark-dev statements` counts them, and `--list` prints them.
    static let statements = [
        "a push of two records": statements(25), "a refused push of two records": statements(19),
        "a pull of one revision": statements(15), "an idle sync of a device": statements(49),
        "opening a device's file and one idle sync": statements(166),
    ]
    private static func statements(_ count: Int) -> Budget {
        Budget("SQL statements", count, cure: "`tidemark-dev statements --list` prints them.")
    }
}

/// The numbers that may only fall, counted in this tree and in the programs built from it.
@Suite struct BudgetTests {
    private let sources = Repository.swiftFiles.filter { $0.path.hasPrefix("Sources/") }
    /// The words of all sources, read once.
    private static let words = Repository.swiftFiles.filter { $0.path.hasPrefix("Sources/") }.map(SourceWords.init)

    @Test func `the product grew, or shrank and its budget did not follow`() {
        keep(.product, lineCount(sources.filter { isProduct($0.path) }))
        keep(.server, lineCount(sources.filter { serverTargets.contains(targetName(of: $0.path)) }))
    }

    @Test func `a new store has more to implement than before`() {
        let seam = SeamProtocol.seam(of: Self.words)
        #expect(seam.contains { $0.name == "CommitTransaction" })
        keep(
            .seam, seam.map(\.requirements.count).reduce(0, +),
            listing: seam.map { "\($0.name) \($0.requirements.count)" })
    }

    @Test func `rows and log got one more way out of the server`() {
        let exits = SeamProtocol.seam(of: Self.words).flatMap { one in one.exits.map { "\(one.name).\($0.name)" } }
        keep(.exits, exits.count, listing: exits)
        let routes = zoneRoutes(in: sources)
        keep(.routes, routes.count, listing: routes)
    }

    @Test func `one more file can be understood only together with all others of its knot`() {
        for (target, files) in Dictionary(grouping: Self.words, by: \.target) {
            let knot = largestKnot(files)
            let names = knot.compactMap { $0.split(separator: "/").last.map(String.init) }
            if let budget = Budget.knots[target] {
                keep(budget, knot.count, in: target, listing: names)
            } else {
                #expect(knot.count <= 5, "\(target): \(knot.count) files need each other, at most 5: \(names)")
            }
        }
    }

    @Test func `a request runs more SQL than before`() throws {
        // A process of its own, because SQLite reports the statements of a whole process.
        let output = try run(programs.appending(path: "tidemark-dev"), ["statements", "--json"])
        let counts = try JSONDecoder().decode([String: Int].self, from: Data(output.utf8))
        #expect(Set(counts.keys) == Set(Budget.statements.keys))
        for (step, budget) in Budget.statements { keep(budget, counts[step] ?? 0, in: step) }
    }

    #if os(Linux) && arch(x86_64)
    @Test func `a push or a PATCH runs through one more file`() throws {
        let script = Repository.root.appending(path: "Scripts/path-of-a-push.py")
        // A container can forbid tracing; `make path` then counts on another machine.
        guard try succeeds(script, ["--can-trace"]) else { return }
        let program = programs.appending(path: "tidemark").path
        for (budget, options) in [(Budget.path, []), (.patchPath, ["--patch"])] {
            let output = try run(script, options + [program])
            let result = try #require(output.split(separator: "\n").last?.firstMatch(of: #/: (\d+) files/#))
            keep(budget, Int(result.1) ?? 0)
        }
    }
    #endif

    private func keep(_ budget: Budget, _ count: Int, in place: String? = nil, listing: [String] = []) {
        guard let complaint = budget.complaint(about: count) else { return }
        let list = listing.isEmpty ? "" : " They are: \(listing.joined(separator: ", "))."
        Issue.record("\(place.map { $0 + ": " } ?? "")\(complaint)\(list)")
    }

    /// Runs a program to its end, and returns what it prints.
    private func run(_ program: URL, _ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.currentDirectoryURL = Repository.root
        let output = Pipe()
        process.standardOutput = output
        let errors = Pipe()
        process.standardError = errors
        try process.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        let complaint = try errors.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        try #require(
            process.terminationStatus == 0,
            "\(program.lastPathComponent) failed: \(String(decoding: complaint.suffix(2_000), as: UTF8.self))")
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether a program ends without an error.
    private func succeeds(_ program: URL, _ arguments: [String]) throws -> Bool {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    /// The folder of the programs that were built along with the tests.
    private var programs: URL {
        #if os(macOS)
        let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }
        return (bundle ?? .main).bundleURL.deletingLastPathComponent()
        #else
        return Bundle.main.bundleURL
        #endif
    }
}
