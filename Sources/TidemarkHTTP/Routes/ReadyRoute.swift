internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import TidemarkCore

/// `GET /readyz`: whether the server wants requests and its store answers.
///
/// `/healthz` says whether the process is to be started anew; this, whether it is to be left in
/// peace for a while.
struct ReadyRoute {
    let store: StoreCheck
    let readiness: Readiness

    /// Answers one request, within the bound of ``StoreCheck``.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        guard !readiness.isStopping else {
            // As it should be, so no line in the log at each check.
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
