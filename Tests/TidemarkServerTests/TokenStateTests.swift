import Testing
import TidemarkEngine
import TidemarkTestSupport

/// The life of a token, and its text.
@Suite struct TokenStateTests {
    private typealias Row = (state: TokenState, event: TokenState.Event, result: TokenState, TokenState.Reaction)

    /// What each event does to a token that is not a device's.
    private static let table: [Row] = [
        (.issued, .shown, .active, .acceptAndRetirePredecessor),
        (.issued, .shownInGrace, .active, .acceptAndRetirePredecessor),
        (.active, .shownInGrace, .active, .accept), (.retired, .shownInGrace, .retired, .refuse),
        (.revoked, .shownInGrace, .revoked, .refuse), (.issued, .successorShown, .retired, .none),
        (.issued, .revoked, .revoked, .none), (.active, .shown, .active, .accept),
        (.active, .successorShown, .retired, .none), (.active, .revoked, .revoked, .none),
        (.retired, .shown, .retired, .refuse), (.retired, .successorShown, .retired, .none),
        (.retired, .revoked, .revoked, .none), (.revoked, .shown, .revoked, .refuse),
        (.revoked, .successorShown, .revoked, .none), (.revoked, .revoked, .revoked, .none),
    ]

    @Test(arguments: Token.Kind.allCases) func `each event does one thing to a token in each state`(kind: Token.Kind) {
        #expect(Self.table.count == TokenState.allCases.count * TokenState.Event.allCases.count)
        for state in TokenState.allCases {
            for event in TokenState.Event.allCases {
                let rows = Self.table.filter { $0.state == state && $0.event == event }
                #expect(rows.count == 1)
                guard let row = rows.first else { continue }
                let step = state.after(event, kind: kind)
                let isReuse = kind == .device && state == .retired && event == .shown
                #expect(step.state == (isReuse ? .revoked : row.result), "\(kind) \(state) \(event)")
                #expect(step.reaction == (isReuse ? .refuseAndRevokeChain : row.3), "\(kind) \(state) \(event)")
            }
        }
    }

    @Test(arguments: Token.Kind.allCases) func `no event brings a revoked or a retired token back`(kind: Token.Kind) {
        for event in TokenState.Event.allCases {
            #expect(TokenState.revoked.after(event, kind: kind).state == .revoked)
            let reaction = TokenState.retired.after(event, kind: kind).reaction
            #expect(reaction != .accept && reaction != .acceptAndRetirePredecessor)
        }
    }

    @Test(arguments: Token.Kind.allCases) func `a token is read back from its text, and described without its secret`(
        kind: Token.Kind
    ) throws {
        var generator = SeededGenerator(seed: 7)
        let tokens = (0..<100).map { _ in Token.make(kind, using: &generator) }
        #expect(Set(tokens.map(\.id)).count == 100)
        #expect(Set(tokens.map(\.hash)).count == 100)
        for token in tokens {
            #expect(Token(token.text) == token)
            #expect(token.hash.wholeMatch(of: /[0-9a-f]{64}/) != nil)
            let secret = try #require(token.text.split(separator: "_").last)
            #expect(secret.utf8.count == 52)
            var dumped = ""
            dump(token, to: &dumped)
            for text in ["\(token)", dumped, String(reflecting: token), "\([token])", token.hash] {
                #expect(!text.contains(secret))
            }
            #expect("\(token)" == "\(kind.rawValue)_\(token.id)")
            let issued = IssuedToken(token: token.text, expires: 1, user: "anna")
            dump(issued, to: &dumped)
            #expect(!"\(issued) \([issued]) \(dumped)".contains(secret))
        }
    }

    @Test func `the hash is the SHA-256 of the whole text`() throws {
        let text = "tmd_23456789_" + String(repeating: "z", count: 52)
        let token = try #require(Token(text))
        #expect(token.hash == "ba2b0af543dc494861ef40629394454646234f6ff56813375ecf4624e12a794e")
    }
}
