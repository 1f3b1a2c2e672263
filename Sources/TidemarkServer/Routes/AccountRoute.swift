internal import Hummingbird
internal import TidemarkEngine

/// `GET /me`: the user of the request's token, the user's roles, and the tokens of the user's devices.
struct AccountRoute {
    let accounts: any AccountReader

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws
        -> Response
    { try await SmallBody.answer(try await accounts.account(of: user.id), to: request) }
}
