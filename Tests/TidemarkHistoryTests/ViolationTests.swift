import Testing
import TidemarkHistory

@Suite struct ViolationTests {
    @Test func `a violation is one line with the fact, the place and the expectation`() {
        let violation = Violation(.dense, event: 7, actor: "server", subject: "revision 4", expected: "3", found: "4")
        #expect("\(violation)" == "I4 at event 7, server, revision 4: expected 3, found 4")
    }
}
