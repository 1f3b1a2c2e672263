internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import TidemarkCore

/// `GET /readyz`: whether the server accepts requests and its store answers.
///
/// A supervisor restarts a process that fails `/healthz`. A load balancer pauses traffic to one that
/// fails `/readyz`. A single zone that cannot be opened does not make the server unready: the answer counts such
/// zones, and names them to an administrator.
struct ReadyRoute {
    let service: any SyncService
    let admission: Admission
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
        return SmallBody.words(await text(for: request, context))
    }

    private func text(for request: Request, _ context: ServerRequestContext) async -> String {
        let zones = service.unservedZones
        guard !zones.isEmpty else { return "ready\n" }
        // Others than administrators learn the number only, so the refusal of a token is not an error here.
        let isAdministrator = (try? await admission.caller(request, context))?.isAdministrator == true
        guard isAdministrator else {
            return "ready; zones that are not served: \(zones.count); the server's log names them\n"
        }
        return "ready; not served:\n" + zones.map { "\($0)\n" }.joined()
    }

    private func notReady(_ reason: String, fix: String) -> TidemarkError {
        TidemarkError(.unavailable, reason, fix: fix)
    }
}
