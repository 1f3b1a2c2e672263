import Testing
import Tidemark

/// The background sync waits for an edit or a pause, and misses neither.
@Suite struct CommitObserverTests {
    @Test func `A3: a pause that ended before the wait for it returns at once`() async {
        let commits = CommitObserver()
        for _ in 0..<5_000 { await commits.wait(atMost: .zero, orEdit: false) }
    }
}
