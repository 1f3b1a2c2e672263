import NIOConcurrencyHelpers
import TidemarkCore
import TidemarkEngine

/// A gate that refuses chosen requests with 401, before the server's own gate decides.
final class RefusingGate: AccessGate, TokenIssuer {
    fileprivate struct State {
        var count = 0
        var refusedNumber: Int?
        var tokens: [String?] = []
    }

    private let real: MemberGate
    private let state: NIOLockedValueBox<State>

    /// The switch of a gate that a server has not made yet.
    struct Switch: Sendable {
        fileprivate let state = NIOLockedValueBox(State())

        /// Refuses the request of this number, counted from 1 as from now; nil refuses none.
        func refuse(request number: Int?) { state.withLockedValue { $0 = State(refusedNumber: number) } }

        /// The tokens of the requests since the last call of ``refuse(request:)``.
        var tokens: [String?] { state.withLockedValue(\.tokens) }
    }

    init(_ real: MemberGate, controlledBy control: Switch) {
        self.real = real
        state = control.state
    }

    func caller(token: String?) async throws -> Caller {
        try count(token)
        return try await real.caller(token: token)
    }

    func access(to zone: String, token: String?, admitting admit: @Sendable (Caller) throws -> Void) async throws
        -> ZoneAccess
    {
        try count(token)
        return try await real.access(to: zone, token: token, admitting: admit)
    }

    private func count(_ token: String?) throws {
        let isRefused = state.withLockedValue { state in
            state.count += 1
            state.tokens.append(token)
            return state.count == state.refusedNumber
        }
        guard !isRefused else { throw TidemarkError(.signInNeeded, "The token has ended.", fix: "Fetch another.") }
    }

    func moment() async throws -> AccessMoment { try await real.moment() }

    func confirm(_ access: ZoneAccess, token: String?) async throws {
        try await real.confirm(access, token: token)
    }

    func check(_ token: String) async throws { try await real.check(token) }

    func exchange(_ token: String, device: String) async throws -> IssuedToken {
        try await real.exchange(token, device: device)
    }

    func revoke(_ token: String) async throws { try await real.revoke(token) }
}
