import Foundation
import Testing

/// The house rules, held against the whole repository.
@Suite struct TidyTests {
    private let swift = Repository.swiftFiles
    private let files = Repository.files

    @Test func `the repository is found and is not empty`() {
        #expect(files.contains { $0.path == "Package.swift" })
        #expect(swift.contains { $0.path.hasPrefix("Sources/") })
    }

    @Test func `no file holds more than one idea`() { report(swift.flatMap(overlongFile)) }

    @Test func `no line is wider than half a screen`() { report(swift.flatMap(overlongLines)) }

    @Test func `no function is longer than a screen`() { report(swift.flatMap(overlongFunctions)) }

    @Test func `a call says what its values mean`() { report(swift.flatMap(unlabelledParameters)) }

    @Test func `values are assigned one by one`() { report(swift.flatMap(tupleAssignments)) }

    @Test func `comments, names and texts say who does what`() {
        report(swift.flatMap(bannedPhrases) + swift.flatMap(participleNames))
    }

    @Test func `pages say who does what, in sentences that can be read once`() {
        report(Repository.markdownFiles.flatMap { bannedPhrases($0.path, page: $0.text) })
        report(Repository.markdownFiles.flatMap { longSentences($0.path, $0.text) })
    }

    @Test func `clock, randomness, network and output stay in their homes`() {
        report(swift.flatMap { bannedCalls($0.path, $0.text) })
    }

    @Test func `every exception to a ban is still in use`() { report(deadHomes(Home.all, in: swift)) }

    @Test func `nothing is left unfinished`() { report(files.flatMap { unfinishedMarks($0.path, $0.text) }) }

    @Test func `every unchecked promise says why it is safe`() { report(swift.flatMap(unexplainedUnchecked)) }

    @Test func `no error is dropped without a reason`() {
        report(swift.flatMap(unexplainedTry) + swift.flatMap(emptyCatches))
    }

    @Test func `no value of a row is read in a way that can end the process`() { report(swift.flatMap(trappingReads)) }

    @Test func `what is encoded has one order in all processes`() { report(swift.flatMap(unorderedEncodings)) }

    @Test func `nothing depends on one machine`() { report(files.flatMap { machinePaths($0.path, $0.text) }) }

    @Test func `every target imports downwards only`() { report(swift.flatMap(wrongImports)) }

    @Test func `no more than five files of a target need each other`() {
        report(fileCycles(swift.filter { $0.path.hasPrefix("Sources/") }))
    }

    @Test func `no two paths differ only in letter case`() { report(clashingPaths(files.map(\.path))) }

    @Test func `every page has one title`() { report(Repository.markdownFiles.flatMap { titles($0.path, $0.text) }) }

    @Test func `every relative link leads somewhere`() {
        report(
            Repository.markdownFiles.flatMap { page in brokenLinks(page.path, page.text, anchors: Repository.anchors) })
    }

    @Test func `every error has its heading with cause and cure, and no heading is left over`() {
        let text = { path in files.first { $0.path == path }?.text ?? "" }
        report(unexplainedCodes(in: text("Sources/TidemarkCore/Errors/ErrorCode.swift"), page: text("Docs/ERRORS.md")))
    }

    @Test func `every attack of the threat model names test suites, and they exist`() {
        let path = "Docs/THREAT-MODEL.md"
        let page = files.first { $0.path == path }?.text ?? ""
        #expect(page.contains("| test suites |"))
        let suites = swift.filter { $0.path.hasPrefix("Tests/") }.flatMap { testSuites($0.text) }
        report(unansweredAttacks(path, page, suites: Set(suites)))
    }

    @Test func `every metric is explained to those who watch it`() {
        let text = { path in files.first { $0.path == path }?.text ?? "" }
        let source = text("Sources/TidemarkEngine/Metrics/ServerMetrics.swift")
        #expect(source.contains("tidemark_"))
        report(unexplainedMetrics(in: source, page: text("Docs/OPERATIONS.md")))
    }

    @Test func `every promise is numbered and has a test, and every code of a test is explained`() {
        let explained = ["Docs/GUARANTEES.md", "Docs/Mission.md"].flatMap { path in
            explainedCodes(in: path, files.first { $0.path == path }?.text ?? "")
        }
        #expect(explained.contains { $0.name == "rule 1" })
        #expect(explained.contains { $0.name == "A1" })
        let tests = swift.filter { $0.path.hasPrefix("Tests/") && !$0.path.hasPrefix("Tests/TidyTests/") }
        report(misnumberedPromises(explained))
        report(unprovenCodes(explained, in: tests.flatMap { codes(in: $0.path, $0.text) }))
    }

    @Test(arguments: [("Docs/GUARANTEES.md", 12_000), ("ARCHITECTURE.md", 18_000)])
    func `a page for newcomers is short`(path: String, bytesMax: Int) throws {
        let page = try #require(files.first { $0.path == path })
        #expect(page.text.utf8.count <= bytesMax)
    }

    /// PostgreSQL plans a statement once, perhaps while the table is empty, and would then compare each of its rows
    /// with each of the set: 10,000 new rows took 8 s in place of 20 ms.
    @Test func `a set of the books meets a table in an order that PostgreSQL chooses`() {
        for file in Repository.swiftFiles where file.path.hasPrefix("Sources/TidemarkEngine/Store/") {
            let text = String(decoding: file.text.bytes, as: UTF8.self)
            #expect(text.firstMatch(of: #/\{asked\}\s+(CROSS )?JOIN/#) == nil, "\(file.path): write {each}")
        }
    }

    @Test func `the core of the protocol is short`() throws {
        let page = try #require(files.first { $0.path == "Docs/PROTOCOL.md" }).text
        let core = try #require(page.firstRange(of: "\n## Core\n"))
        let end = try #require(page.firstRange(of: "\n## Extensions\n"))
        #expect(page[core.lowerBound..<end.lowerBound].utf8.count <= 12_000)
    }
}

extension Repository {
    /// The headings of a page, no headings for another file or folder, `nil` for nothing.
    fileprivate static func anchors(of path: String) -> Set<String>? {
        if let page = markdownFiles.first(where: { $0.path == path }) { return headingAnchors(of: page.text) }
        return FileManager.default.fileExists(atPath: root.appending(path: path).path) ? [] : nil
    }
}
