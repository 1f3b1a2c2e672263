internal import HTTPTypes
internal import Hummingbird

/// `GET /healthz`: whether the server runs, for load balancers and scripts.
struct HealthRoute {
    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        Response(
            status: .ok,
            headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: "ok\n"))
        )
    }
}
