import Testing
import TidemarkEngine

/// How long a listener stays, as a value: the time and the changes are arguments.
@Suite struct ListenerRightsTests {
    private func rights(expires: Int64?) -> ListenerRights {
        ListenerRights(of: .user(Caller.User(id: "anna", expires: expires)))
    }

    @Test func `a listener's access is decided again at its first look, and after each change`() {
        var rights = rights(expires: 1_000)
        let first = AccessMoment(time: 10, version: 4)
        #expect(rights.step(at: first) == .decidesAgain)
        rights.admit(at: first)
        #expect(rights.step(at: AccessMoment(time: 999, version: 4)) == .stays)
        // A restored database may have an earlier version.
        for version in [3, 5] as [Int64] {
            #expect(rights.step(at: AccessMoment(time: 11, version: version)) == .decidesAgain)
        }
        rights.admit(at: AccessMoment(time: 12, version: 5))
        #expect(rights.step(at: AccessMoment(time: 13, version: 5)) == .stays)
    }

    @Test func `a listener ends with its token, even if nothing has changed`() {
        var rights = rights(expires: 1_000)
        rights.admit(at: AccessMoment(time: 10, version: 4))
        for (time, step) in [(999, .stays), (1_000, .ends), (5_000, .ends)] as [(Int64, ListenerRights.Step)] {
            #expect(rights.step(at: AccessMoment(time: time, version: 4)) == step)
        }
    }

    @Test func `without users, a listener stays for ever`() {
        for caller in [Caller.local, .user(Caller.User(id: "robot"))] {
            var rights = ListenerRights(of: caller)
            rights.admit(at: AccessMoment(time: 0, version: 0))
            #expect(rights.step(at: AccessMoment(time: .max, version: 0)) == .stays)
        }
    }
}
