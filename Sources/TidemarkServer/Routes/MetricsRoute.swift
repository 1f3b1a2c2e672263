internal import HTTPTypes
internal import Hummingbird

/// `GET /metrics`: the server's metrics in the text format of Prometheus.
struct MetricsRoute {
    let exposition: @Sendable () -> String

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        Response(
            status: .ok, headers: [.contentType: PrometheusText.contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: exposition())))
    }
}
