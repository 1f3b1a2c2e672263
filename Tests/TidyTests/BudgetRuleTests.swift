import Testing

/// The counts behind the budgets, against samples.
@Suite struct BudgetRuleTests {
    private func words(_ files: [(String, String)]) -> [SourceWords] {
        files.map { SourceWords(path: "Sources/\($0).swift", text: SwiftText($1 + "\n")) }
    }

    @Test func `a count above its budget is refused, and so is a budget far above its count`() {
        let budget = Budget("things", 100, cure: "Have fewer.")
        #expect(budget.complaint(about: 101) == "things: 101, at most 100. Have fewer.")
        #expect(budget.complaint(about: 100) == nil)
        #expect(budget.complaint(about: 98) == nil)
        #expect(budget.complaint(about: 97)?.hasSuffix("the budget may fall, write 97.") == true)
    }

    @Test func `tools of the project are not lines of the product`() {
        #expect(isProduct("Sources/TidemarkCore/A.swift"))
        #expect(!isProduct("Sources/TidemarkBench/A.swift"))
        #expect(!isProduct("Tests/TidyTests/A.swift"))
        #expect(!isProduct("Sources/CFaultVFS/vfs.c"))
    }

    @Test func `three files whose methods call each other are one knot, although their types do not`() {
        let files = [
            ("T/A", "struct A {}\nextension A { func one() { two() } }"),
            ("T/B", "extension A {\n    func two() { _ = self.three }\n}"),
            ("T/C", "extension A { var three: Int { one() } }"),
            ("T/D", "extension A { func four() { one() } }"),
        ]
        #expect(largestKnot(words(files)) == ["Sources/T/A.swift", "Sources/T/B.swift", "Sources/T/C.swift"])
        // A private member is no other file's, and a name that two files declare could be either's.
        let hidden = files.map { ($0, $1.replacing("func two", with: "private func two")) }
        #expect(largestKnot(words(hidden)).count == 1)
        #expect(largestKnot(words(files + [("T/E", "struct E { func two() {} }")])).count == 1)
    }

    @Test func `only what a store conforms to is its seam, with inherited protocols`() {
        let files = words([
            ("TidemarkEngine/A", "protocol A { func a() -> [UInt8]\n    var b: Int { get } }\nprotocol N { func n() }"),
            ("TidemarkEngine/B", "protocol B: A { static func c(_ d: () -> String) -> Bool\n    init(_ e: E) }"),
            ("TidemarkEmbedded/S", "struct S: Sendable, B {}"), ("TidemarkServer/S", "struct T: N {}"),
        ])
        let seam = SeamProtocol.seam(of: files)
        #expect(seam.map(\.name) == ["A", "B"])
        #expect(seam.map { $0.requirements.map(\.name) } == [["a", "b"], ["c", "_"]])
        #expect(seam.flatMap(\.exits).map(\.name) == ["a"])
    }

    @Test func `a route about rows is told from one about people`() {
        let text = """
            Route(.get, "/tables", for: .members(.reader, a)), Route(.get, "/me", for: .users(b)),
            Route(.get, "\\(zone)/members", for: .members(.reader, c)),
            """
        #expect(zoneRoutes(in: [("Sources/TidemarkServer/R.swift", SwiftText(text))]) == ["/tables"])
    }
}
