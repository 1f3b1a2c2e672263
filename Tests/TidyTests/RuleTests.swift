import Testing

/// Every rule against a sample that breaks it and one that does not.
@Suite struct RuleTests {
    private let source = "Sources/TidemarkCore/Sample.swift"
    private let shell = "Sources/Tidemark/Session/Sample.swift"

    private func lines(_ findings: [Finding]) -> [Int] { findings.map(\.line) }

    @Test(arguments: [(500, []), (501, [501])]) func `a file of 501 lines is reported`(count: Int, expected: [Int]) {
        let text = SwiftText(String(repeating: "let a = 1\n", count: count))
        #expect(lines(overlongFile(source, text)) == expected)
        #expect(overlongFile("Tests/CoreTests/Sample.swift", text).isEmpty)
    }

    @Test func `a line of 121 columns is reported unless it is a literal or a link`() {
        let long = String(repeating: "x", count: 121)
        #expect(lines(overlongLines(source, SwiftText("let a = 1\n// \(long)\n"))) == [2])
        #expect(overlongLines(source, SwiftText(String(repeating: "é", count: 120))).isEmpty)
        #expect(overlongLines(source, SwiftText("// https://example.org/\(long)\n")).isEmpty)
        #expect(overlongLines(source, SwiftText("let q = \"\"\"\n\(long)\n\"\"\"\n")).isEmpty)
    }

    @Test(arguments: [
        "func f(_ g: () -> Void = { }) throws {\nBODY}", "init?(a: Int)\nwhere T: Sendable {\nBODY}",
        "var text: String {\nBODY}", "func `a test that says \"{\"`() {\nBODY}",
        "func f() {\nlet s = \"}\\(g { 1 })}\"\nBODY}",
    ]) func `a function of 71 lines is reported`(shape: String) {
        func text(bodyLines: Int) -> SwiftText {
            let body = String(repeating: "x += 1 // }\n", count: bodyLines)
            return SwiftText("protocol P { func p() }\n" + shape.replacing("BODY", with: body))
        }
        let frame = shape.count { $0 == "\n" } + 1
        #expect(overlongFunctions(source, text(bodyLines: 70 - frame)).isEmpty)
        #expect(lines(overlongFunctions(source, text(bodyLines: 71 - frame))) == [2])
    }

    @Test func `three files in a circle are reported where two may need each other`() {
        let files = [
            ("A", "struct A { let b: B }"), ("B", "enum B { case c(C) }"),
            ("C", "// A\nfinal class C {\n    let a: A?\n}"), ("D", "actor D { let a: A }"),
        ].map { name, code in (path: "Sources/T/\(name).swift", text: SwiftText(code + "\n")) }
        #expect(fileCycles(files, most: 2).map(\.path) == ["Sources/T/A.swift"])
        #expect(fileCycles(files, most: 3).isEmpty)
        #expect(fileCycles(files.filter { $0.path != "Sources/T/C.swift" }, most: 1).isEmpty)
    }

    @Test(arguments: Ban.everywhere) func `a banned call is reported anywhere in the sources`(ban: Ban) {
        let bad = SwiftText("func f() {\n    let x = \(ban.call)\n}\n")
        #expect(lines(bannedCalls(shell, bad, homes: [])).contains(2))
        let quoted = SwiftText("// \(ban.call)\nlet x = \"\(ban.call)\"\n")
        #expect(bannedCalls(shell, quoted, homes: []).isEmpty)
    }

    @Test(arguments: Ban.inCore) func `what waits or reads a clock is reported in the core only`(ban: Ban) {
        let bad = SwiftText("let x = y \(ban.call)\n")
        #expect(lines(bannedCalls(source, bad, homes: [])) == [1])
        #expect(bannedCalls(shell, bad, homes: []).isEmpty)
    }

    @Test(arguments: Ban.inCoreSQL) func `a clock or generator inside the core's SQL is reported`(ban: Ban) {
        let bad = SwiftText("let sql = \"\"\"\n    SELECT \(ban.call)\n    \"\"\"\n")
        #expect(lines(bannedCalls(source, bad, homes: [])) == [2])
    }

    @Test func `a generator that was handed in, and a method named print, are fine`() {
        let good = "let a = Int.random(\n  in: 0..<9, using: &g)\nout.print(a)\nfunc print(_ a: Int) {}"
        #expect(bannedCalls(source, SwiftText(good), homes: []).isEmpty)
    }

    @Test func `a test that sleeps is reported, one that makes an id is not`() {
        let text = SwiftText("let id = UUID()\ntry await Task.sleep(for: .seconds(1))\n")
        #expect(lines(bannedCalls("Tests/CoreTests/Sample.swift", text, homes: [])) == [2])
    }

    @Test func `an allowance holds for its file and call, and is reported when unused`() {
        let home = Home(path: shell, calls: ["Date()"], reason: "the system clock")
        let text = SwiftText("let a = Date()\nlet b = UUID()\n")
        #expect(lines(bannedCalls(shell, text, homes: [home])) == [2])
        #expect(lines(bannedCalls(source, text, homes: [home])) == [1, 2])
        #expect(deadHomes([home], in: [(shell, text)]).isEmpty)
        #expect(deadHomes([home], in: [(source, text)]).map(\.path) == [shell])
    }

    @Test func `a subscript of a row is reported where files are read, and nowhere else`() {
        let bad = SwiftText("let a = row[\"a\"]\nlet b = rows[0][\"b\"]\nlet c = row?[0]\nlet d = $0[1] as Int\n")
        let device = "Sources/Tidemark/Sample.swift"
        #expect(lines(trappingReads(device, bad)) == [1, 2, 3, 4])
        #expect(trappingReads("Sources/TidemarkCLI/Sample.swift", bad).isEmpty)
        let good = SwiftText("let a: Int = try row.value(\"a\")\nlet b = [\"a\"] + list[0]\n// row[0]\n")
        #expect(trappingReads(device, good).isEmpty)
    }

    @Test func `an attack without a test suite, or with one that is gone, is reported`() {
        let page = """
            | attack | answer | test suites |
            | --- | --- | --- |
            | a | b | `ATests`, `BTests` |
            | a | `ATests` | |
            | a | b | soon |
            | a | b | `ATests` |
            """
        let source = SwiftText("@Suite(.timeLimit(.minutes(5))) struct ATests {\n}\n// struct BTests\n")
        let suites = Set(testSuites(source))
        #expect(suites == ["ATests"])
        #expect(lines(unansweredAttacks("a.md", page, suites: suites)) == [3, 4, 5])
        #expect(testSuites(SwiftText("@Suite final class CTests {}")) == ["CTests"])
    }

    @Test func `a mark of unfinished work is reported`() {
        #expect(lines(unfinishedMarks("Makefile", "a\n# TO" + "DO: b\n")) == [2])
        #expect(unfinishedMarks("a.sh", "mktemp XX" + "XXXX").isEmpty)
    }

    @Test func `a path of one machine is reported`() {
        #expect(lines(machinePaths("a.md", "see\n/ho" + "me/anna/file and /Us" + "ers/x")) == [2, 2])
        #expect(machinePaths("a.md", "https://example.org/homes/1").isEmpty)
    }

    @Test func `an unchecked promise without a reason on the next line is reported`() {
        let bad = SwiftText("final class A: @unchecked Sendable {\n    let a = 1\n}\n")
        let good = SwiftText("final class A: @unchecked Sendable {\n    // One thread.\n}\n")
        #expect(lines(unexplainedUnchecked(source, bad)) == [1])
        #expect(unexplainedUnchecked(source, good).isEmpty)
    }

    @Test func `an error that is dropped in silence is reported`() {
        let bad = SwiftText("//\nlet a = 1\nlet b = try? f()\n")
        let good = SwiftText("// Gone already: fine.\ntry? f()\nlet s = \"try?\"\ntry? f()  // Too.\n")
        #expect(lines(unexplainedTry(source, bad)) == [3])
        #expect(unexplainedTry(source, good).isEmpty)
    }

    @Test func `an empty catch is reported, also one that only comments`() {
        let bad = SwiftText("do { try f() } catch {\n}\ndo { try f() } catch let e as E { /* no */ }")
        #expect(lines(emptyCatches(source, bad)) == [1, 3])
        #expect(emptyCatches(source, SwiftText("do { try f() } catch { g(error) }")).isEmpty)
    }

    @Test func `an import that points the wrong way is reported`() {
        let text = SwiftText("import Foundation\npublic import struct TidemarkEngine.Engine\nimport Hummingbird\n")
        #expect(lines(wrongImports(shell, text)) == [2, 3])
        #expect(wrongImports("Sources/TidemarkServer/Sample.swift", text).isEmpty)
        #expect(wrongImports("Tests/HTTPTests/Sample.swift", text).isEmpty)
        #expect(lines(wrongImports(source, SwiftText("\nimport TidemarkSQL"))) == [2])
        let device = SwiftText("import Tidemark\nimport TidemarkCore\n")
        #expect(lines(wrongImports("Sources/TidemarkEngine/Sample.swift", device)) == [1])
        #expect(lines(wrongImports("Sources/Unheard/Sample.swift", device)) == [1])
    }

    @Test func `two paths that are one on macOS are reported`() {
        #expect(clashingPaths(["Sources/Tide/A.swift", "Sources/tide/B.swift"]).count == 1)
        #expect(clashingPaths(["Sources/Tide/A.swift", "Sources/Tide/B.swift"]).isEmpty)
    }

    @Test func `a page without a title, or with two, is reported`() {
        #expect(lines(titles("a.md", "text\n")) == [1])
        #expect(lines(titles("a.md", "# One\n```\n# a comment\n```\n# Two\n")) == [5])
    }

    @Test func `a link that leads nowhere is reported`() {
        let pages = ["Docs/a.md": Set(["rules-1-to-9"]), "Docs": [], "README.md": []]
        let text = """
            [a](b.md) and `[b](c.md)` and [web](https://example.org)
            [up](../README.md "title"), [there](./a.md#rules-1-to-9), [here](#rules-1-to-9)
            [lost](../Docs/a.md#rule), <a href="d.md">
            """
        let found = brokenLinks("Docs/a.md", text) { pages[$0] }
        #expect(lines(found) == [1, 3, 3])
        #expect(headingAnchors(of: "## Rules, 1 to `9`!\n# B\n") == ["rules-1-to-9", "b"])
    }

    @Test func `an error without a heading, and a heading without an error, are reported`() {
        let source = "let a = ErrorCode(rawValue: \"a\")\nlet b = ErrorCode(rawValue: \"b\")"
        let found = unexplainedCodes(in: source, page: "# Errors\n\n### a\n\nWhy.\n\n### c\n")
        #expect(found.map(\.line) == [1, 7])
        #expect(unexplainedCodes(in: source, page: "### a\n### b\n").isEmpty)
    }

    @Test func `a test carries the codes before its colon, and no others`() {
        #expect(codes(of: "A7, rule 2: one record, A8") == ["A7", "rule 2"])
        #expect(
            codes(of: "Rules 6 7 and 10, cases 20 21: cut") == ["rule 6", "rule 7", "rule 10", "case 20", "case 21"])
        #expect(codes(of: "the rule 3 of A6: none").isEmpty)
        #expect(codes(of: "A6 without a colon").isEmpty)
        #expect(codes(of: "3: a number alone").isEmpty)
    }

    @Test func `the codes of names and of suites' comments are read, and of nothing else`() {
        let text = SwiftText(
            """
            /// Cases 7 and 63: the server's file
            /// is gone.
            ///
            /// B3: in passing
            @Suite struct ATests {
                /// A5: in passing
                @Test func `A2: a curl works`() { f("func `A4: quoted`()") }
                @Test(arguments: [1])
                func
                    `rule 3: a retry`(n: Int) {}
                func a() {}
            }
            """
        )
        let found = codes(in: "Tests/ATests.swift", text)
        #expect(found.map(\.name) == ["A2", "rule 3", "case 7", "case 63"])
        #expect(found.map(\.line) == [7, 9, 1, 1])
    }

    @Test func `a code without an explanation, or without a test, is reported`() {
        let page = "# P\n### 1. One\n### 3. Three\n| A6 | use |\n| case 7 | failure |\n| Abc |\n"
        let explained = explainedCodes(in: "P.md", page)
        #expect(explained.map(\.name) == ["rule 1", "rule 3", "A6", "case 7"])
        #expect(lines(misnumberedPromises(explained)) == [3])
        let tests = ["rule 1", "A6", "A9"].map { Code(name: $0, path: "T.swift", line: 9) }
        let found = unprovenCodes(explained, in: tests)
        #expect(found.map(\.path) == ["T.swift", "P.md", "P.md"])
        #expect(lines(found) == [9, 3, 5])
    }

    @Test func `a sentence without an actor is reported, a quoted one in code of a page is not`() {
        let phrase = "who" + "ever"
        #expect(lines(bannedPhrases(source, SwiftText("let a = 1\n/// For \(phrase) reads.\n"))) == [2])
        #expect(lines(bannedPhrases(source, SwiftText("let s = \"for \(phrase)\"\n"))) == [1])
        #expect(lines(bannedPhrases("Page.md", page: "# A\n\nFor \(phrase) reads.\n")) == [3])
        #expect(bannedPhrases("Page.md", page: "# A\n\nThe word `\(phrase)`.\n").isEmpty)
        #expect(bannedPhrases(source, SwiftText("// somewhat isolated\n")).isEmpty)
    }

    @Test func `a participle as a name is reported where it is declared`() {
        #expect(lines(participleNames(source, SwiftText("let told = 1\nprint(told)\n"))) == [1])
        #expect(lines(participleNames(source, SwiftText("func f(\n    asked: Int\n) {}\n"))) == [2])
        #expect(lines(participleNames(source, SwiftText("func f(of given: [(Int, Int)]) {}\n"))) == [1])
        #expect(participleNames(source, SwiftText("let isKept = f(kept: 1)\n")).isEmpty)
    }

    @Test func `three parameters without a label are reported, two are not`() {
        #expect(lines(unlabelledParameters(source, SwiftText("func f(_ a: A, _ b: (Int, Int), _ c: C) {}\n"))) == [1])
        #expect(lines(unlabelledParameters(source, SwiftText("a()\ninit(\n_ a: A, _ b: B, d: D, _ c: C)\n"))) == [2])
        #expect(unlabelledParameters(source, SwiftText("func f(_ a: A, _ b: B, c: C) {}\n")).isEmpty)
        #expect(unlabelledParameters(source, SwiftText("self.init(_ a, b)\n")).isEmpty)
    }

    @Test func `a set in an encoded type is reported, one beside it is not`() {
        let stored = """
            struct A: Hashable, Codable {
                let names: Set<String>?
                var byKey: [Key: Int] = [:]
                let byName: [String: Int]
                static let all: Set<String> = []
                var unique: Set<String> { Set(list) }
                func f() {
                    let names: Set<String> = []
                }
                struct B { let names: Set<String> }
            }
            struct C { let names: Set<String> }

            """
        #expect(lines(unorderedEncodings(source, SwiftText(stored))) == [2, 3])
        #expect(unorderedEncodings("Tests/ATests.swift", SwiftText(stored)).isEmpty)
    }

    @Test func `a tuple that saves a line is reported, one that a function returns is not`() {
        #expect(
            lines(tupleAssignments(source, SwiftText("(self.a, self.b) = (a, b)\nlet (a, b) = (1, 2)\n"))) == [1, 2])
        #expect(tupleAssignments(source, SwiftText("let (a, b) = pair(of: x)\n")).isEmpty)
    }

    @Test func `a page of long sentences is reported`() {
        let long = String(repeating: "word ", count: 33) + "end. "
        let short = "A short one. "
        #expect(longSentences("Page.md", String(repeating: short, count: 20)).isEmpty)
        #expect(longSentences("Page.md", String(repeating: long, count: 5)).count == 2)
        #expect(longSentences("Page.md", String(repeating: short, count: 8) + long + long).count == 1)
        #expect(sentenceLengths(in: "# Not this\n\nOne [two](three) `four five`.\n- six seven\n") == [3, 2])
    }
}
