import Testing

@testable import TidemarkIdentity

/// When keys are fetched and how long they are used, in virtual time.
@Suite struct KeyRefreshTests {
    private static let start: Int64 = 1_000_000_000

    /// Keys that were fetched at the start.
    private static func fetched() -> KeyRefresh {
        var refresh = KeyRefresh()
        refresh.begin(now: start)
        refresh.end(isSuccess: true, now: start)
        return refresh
    }

    @Test func `nothing was fetched`() {
        let refresh = KeyRefresh()
        #expect(refresh.mayFetch(now: Self.start))
        #expect(refresh.isDue(now: Self.start))
        #expect(!refresh.areUsable(now: Self.start))
    }

    @Test(arguments: [
        (0, false, false, true), (59_999, false, false, true), (60_000, true, false, true),
        (3_599_999, true, false, true), (3_600_000, true, true, true), (86_399_999, true, true, true),
        (86_400_000, true, true, false),
    ]) func `the age of the keys decides`(age: Int64, mayFetch: Bool, isDue: Bool, areUsable: Bool) {
        let refresh = Self.fetched()
        #expect(refresh.mayFetch(now: Self.start + age) == mayFetch)
        #expect(refresh.isDue(now: Self.start + age) == isDue)
        #expect(refresh.areUsable(now: Self.start + age) == areUsable)
    }

    @Test func `a failed fetch does not make the keys younger, and is repeated after a minute`() {
        var refresh = Self.fetched()
        let attempt = Self.start + 3_600_000
        refresh.begin(now: attempt)
        refresh.end(isSuccess: false, now: attempt)
        #expect(refresh.hasFailed)
        #expect(!refresh.isDue(now: attempt + 59_999))
        #expect(refresh.isDue(now: attempt + 60_000))
        #expect(!refresh.areUsable(now: Self.start + 86_400_000))
    }

    @Test func `a clock that was set back does not stop the fetches`() {
        let refresh = Self.fetched()
        #expect(refresh.mayFetch(now: Self.start - 1))
        #expect(refresh.isDue(now: Self.start - 1))
        #expect(refresh.areUsable(now: Self.start - 1))
    }
}
