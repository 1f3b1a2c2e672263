internal import HTTPTypes
internal import Hummingbird

/// `GET /healthz`: tells load balancers and scripts that the server runs.
struct HealthRoute {
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        Response(
            status: .ok, headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: "ok\n")))
    }
}
