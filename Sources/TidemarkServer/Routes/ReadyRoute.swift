internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import TidemarkCore

/// `GET /readyz`: whether the server accepts requests and its store answers.
///
/// A supervisor restarts a process that fails `/healthz`. A load balancer pauses traffic to one that
/// fails `/readyz`.
struct ReadyRoute {
    let store: StoreCheck
    let readiness: Readiness

    /// Answers one request, within the bound of ``StoreCheck``.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        guard !readiness.isStopping else {
            // This state is expected, so checks do not log it.
            throw Refusal(.unavailable, "The server is shutting down.", fix: "Ask another server.")
        }
        do { try await store.run() } catch let error as TidemarkError {
            throw notReady("The store does not answer: \(error.message)", fix: error.fix)
        } catch {
            context.logger.error("the store does not answer", metadata: ["error": "\(error)"])
            throw notReady("The store does not answer.", fix: "The server's log says more under request \(context.id).")
        }
        return Response(
            status: .ok,
            headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: "ready\n"))
        )
    }

    private func notReady(_ reason: String, fix: String) -> TidemarkError {
        TidemarkError(.unavailable, reason, fix: fix)
    }
}
