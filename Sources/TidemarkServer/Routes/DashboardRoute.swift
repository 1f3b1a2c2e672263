internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkDashboard

/// `/dashboard/` and `/client/tidemark.js`: static files, which say nothing about rows or people.
struct DashboardRoute: Sendable {
    let pages: WebPages
    private let compressed = CompressedAnswers(bounds: .init(countMax: 32))

    /// Answers `GET /dashboard/` with the first file; without the slash, the files' relative addresses would be wrong.
    @Sendable func start(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        guard request.uri.path.hasSuffix("/") else {
            return Response(
                status: .permanentRedirect, headers: [.location: "dashboard/", .cacheControl: "no-cache"],
                body: ResponseBody())
        }
        return try await answer(request, name: WebPages.startName)
    }

    /// Answers `GET /` of a browser with a page that leads to the dashboard; to a program this path is unknown.
    @Sendable func root(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        guard request.headers[.accept]?.contains("text/html") == true else { throw HTTPError(.notFound) }
        let page = """
            <!doctype html><html lang="en"><meta charset="utf-8"><title>Tidemark</title>
            <p>This is a Tidemark server. <a href="dashboard/">Open its dashboard</a></p></html>

            """
        var response = Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: page)))
        Self.protect(&response, type: "text/html; charset=utf-8")
        response.headers[.vary] = "Accept"
        return response
    }

    /// Answers `GET /dashboard/{file}`.
    @Sendable func file(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        try await answer(request, name: context.parameters.get("file") ?? WebPages.startName)
    }

    /// Answers `GET /client/tidemark.js`.
    @Sendable func client(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        try await answer(request, name: WebPages.clientName)
    }

    private func answer(_ request: Request, name: String) async throws -> Response {
        let files = try pages.files()
        guard let file = files.file(named: name) else { throw HTTPError(.notFound) }
        guard request.headers[.ifNoneMatch] != files.entityTag else {
            return Response(status: .notModified, headers: [.eTag: files.entityTag, .cacheControl: "no-cache"])
        }
        var response = try await JSONAnswer.response(file.content, to: request.headers, shared: compressed)
        response.headers[.eTag] = files.entityTag
        Self.protect(&response, type: file.mediaType)
        return response
    }

    private static func protect(_ response: inout Response, type: String) {
        response.headers[.contentType] = type
        response.headers[.cacheControl] = "no-cache"
        response.headers[.contentSecurityPolicy] = WebPages.contentSecurityPolicy
        response.headers[.referrerPolicy] = "no-referrer"
    }
}

extension HTTPField.Name { fileprivate static let referrerPolicy = customName("Referrer-Policy") }
