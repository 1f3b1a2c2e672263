import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOConcurrencyHelpers
import NIOCore
import TidemarkCore

/// A stand-in for a proxy that checks tokens: real HTTP, and an answer for the right token.
struct Gate: Sendable {
    let port: Int
    private let visitLog: NIOLockedValueBox<[Visit]>

    var url: String { "http://127.0.0.1:\(port)" }
    /// The requests so far.
    var visits: [Visit] { visitLog.withLockedValue { $0 } }

    /// One request.
    struct Visit: Hashable, Sendable {
        let path: String
        let authorization: String?
        let bodyBytes: Int
    }

    /// The answer for requests without the right token.
    struct Dismissal: Sendable {
        var status = HTTPResponse.Status.unauthorized
        var headers: HTTPFields = [.wwwAuthenticate: "Bearer"]
        var text = "<h1>nginx</h1>"
    }

    /// Runs `body` against a gate that accepts one token, or none.
    static func run(
        token: String?, otherwise dismissal: Dismissal = Dismissal(), body: @Sendable (Gate) async throws -> Void
    ) async throws {
        let visitLog = NIOLockedValueBox<[Visit]>([])
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let application = Application(
            responder: Guard(token: token, dismissal: dismissal, visitLog: visitLog),
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { channel in listening.yield(channel.localAddress?.port ?? 0) },
            logger: Logger(label: "gate") { _ in SwiftLogNoOpLogHandler() })
        let running = Task {
            defer { listening.finish() }
            try await application.run()
        }
        let result: Result<Void, any Error>
        do {
            for await port in ports {
                try await body(Gate(port: port, visitLog: visitLog))
                break
            }
            result = .success(())
        } catch { result = .failure(error) }
        running.cancel()
        _ = await running.result
        try result.get()
    }

    private struct Guard: HTTPResponder {
        typealias Context = BasicRequestContext

        let token: String?
        let dismissal: Dismissal
        let visitLog: NIOLockedValueBox<[Visit]>

        func respond(to request: Request, context: Context) async throws -> Response {
            let body = try await request.body.collect(upTo: 64 << 20)
            let visit = Visit(
                path: request.uri.path, authorization: request.headers[.authorization], bodyBytes: body.readableBytes)
            visitLog.withLockedValue { $0.append(visit) }
            guard let token, visit.authorization == "Bearer \(token)" else {
                return Response(
                    status: dismissal.status, headers: dismissal.headers,
                    body: ResponseBody(byteBuffer: ByteBuffer(string: dismissal.text)))
            }
            let json = try JSONEncoder().encode(ScriptedService.digest(of: "main"))
            return Response(
                status: .ok, headers: [.contentType: "application/json"],
                body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
        }
    }
}
