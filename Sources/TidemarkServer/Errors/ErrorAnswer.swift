internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// Renders errors, only typed ones with details; the routes about records answer with problem details (RFC 9457).
enum ErrorAnswer {
    /// The `Retry-After` of answers with status 503 whose error names no other, in seconds.
    private static let retryAfterSeconds = 5
    /// How long a connection stays open so that a client that still uploads can read the answer.
    private static let lingerTime = TimeAmount.seconds(5)

    /// Builds the answer, and logs the details that only the operator may see.
    static func response(to error: any Error, request: Request, context: ServerRequestContext) async throws -> Response
    {
        switch error {
        case let error as TidemarkError:
            if error.code.status.kind == .serverError {
                context.logger.error(
                    "the server cannot answer", metadata: ["code": "\(error.code.rawValue)", "error": "\(error)"])
            }
            return try await response(Problem(error), headers: [:], request: request, context: context)
        case let problem as Problem:
            return try await response(problem, headers: [:], request: request, context: context)
        case let refusal as Refusal: return try await response(to: refusal, request: request, context: context)
        case let error as HTTPError where error.status == .notFound:
            let refusal = try await unknownPath(request).droppingBody(of: request)
            return try await response(to: refusal, request: request, context: context)
        case is CancellationError:
            let error = TidemarkError(.unavailable, "The server is shutting down.", fix: "Try again later.")
            return try await response(Problem(error), headers: [:], request: request, context: context)
        default:
            context.logger.error(
                "the server failed",
                metadata: [
                    "method": "\(request.method)", "route": "\(RouteTable.route(context.endpointPath))",
                    "error": "\(error)",
                ])
            let error = defect(context)
            return try await response(Problem(error), headers: [:], request: request, context: context)
        }
    }

    /// Answers a refusal, and closes the connection if the refused upload may continue.
    static func response(to refusal: Refusal, request: Request, context: ServerRequestContext) async throws -> Response
    {
        var headers = refusal.headers
        if refusal.leavesBodyUnread {
            headers[.connection] = "close"
            let channel = context.channel
            channel.eventLoop.scheduleTask(in: lingerTime) { channel.close(promise: nil) }
        }
        return try await response(Problem(refusal.error), headers: headers, request: request, context: context)
    }

    private static func response(
        _ problem: Problem, headers: HTTPFields, request: Request, context: ServerRequestContext
    ) async throws -> Response {
        let error = problem.error
        context.notes.code = error.code
        var response = try await rendering(problem, request: request, context: context)
        for field in headers { response.headers[field.name] = field.value }
        let pause =
            error.retryAfterSeconds ?? (error.code.status == .serviceUnavailable ? retryAfterSeconds : nil)
        response.headers[.retryAfter] = pause.map { "\($0)" }
        return response
    }

    private static func rendering(_ problem: Problem, request: Request, context: ServerRequestContext) async throws
        -> Response
    {
        let code = problem.error.code
        guard RouteTable.isAboutRecords(RouteTable.route(context.endpointPath)) else {
            return try await SmallBody.answer(WireError(problem.error), status: code.status, to: request)
        }
        let status = code.recordStatus
        return try await JSONAnswer.response(
            Array(problem.json(status: status.code).utf8), status: status, type: "application/problem+json",
            to: request.headers)
    }

    private static func unknownPath(_ request: Request) -> Refusal {
        Refusal(.unknownPath, "This server has no \(request.uri.path).", fix: fix(for: request.uri.path))
    }

    private static func fix(for path: String) -> String {
        let first = path.split(separator: "/").first.map(String.init)
        switch first {
        case nil: return "A browser finds the dashboard at /dashboard/, if the server shows it. \(RouteTable.paths)"
        case "dashboard": return "Leave /dashboard/ out of the server's address."
        case "zones", "me", "token", "invitations", "members":
            return "A server without users has no such path: serve with --users. \(RouteTable.paths)"
        default: return RouteTable.paths
        }
    }

    private static func defect(_ context: ServerRequestContext) -> TidemarkError {
        TidemarkError(
            .internalFailure, "The server failed to answer request \(context.id).",
            fix: "Try again later. The server's log says more under that id.")
    }
}
