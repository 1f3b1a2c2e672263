internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// One method of one path, the decision who may use it, and the code that answers.
struct Route: Sendable {
    /// A route's code, called after the decision; it needs what that gives, so no route about a zone goes without one.
    enum Answer: Sendable {
        typealias Plain = @Sendable (Request, ServerRequestContext) async throws -> Response
        typealias InZone = @Sendable (Request, ServerRequestContext, ZoneAccess) async throws -> Response
        typealias OfUser = @Sendable (Request, ServerRequestContext, Caller.User) async throws -> Response
        typealias OfToken = @Sendable (Request, ServerRequestContext, _ token: String) async throws -> Response

        /// Answers anybody, because it says nothing about rows or people.
        case anybody(Plain)
        /// Answers members of the zone who have at least this role.
        case members(Role, InZone)
        /// Answers users who are signed in, each about the user's own affairs.
        case users(OfUser)
        case administrators(Plain)
        /// Answers the holder of a token that the issuer finds valid, of any purpose, about this token.
        case holders(any TokenIssuer, OfToken)
    }

    enum Decision: Hashable, Sendable {
        case anybody
        case members(Role)
        case users
        case administrators
        case holders
    }

    /// The path, with `{zone}` where it has the name of a zone.
    let path: String
    /// The method; a `GET` also answers to `HEAD`.
    let method: HTTPRequest.Method
    let answer: Answer

    init(_ method: HTTPRequest.Method, _ path: String, for answer: Answer) {
        self.path = path
        self.method = method
        self.answer = answer
    }

    var decision: Decision {
        switch answer {
        case .anybody: .anybody
        case .members(let role, _): .members(role)
        case .users: .users
        case .administrators: .administrators
        case .holders: .holders
        }
    }

    var methods: [HTTPRequest.Method] { method == .get ? [.get, .head] : [method] }
}
