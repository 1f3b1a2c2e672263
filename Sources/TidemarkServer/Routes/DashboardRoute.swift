internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkDashboard

/// `/dashboard/` and `/client/tidemark.js`: static files, which say nothing about rows or people.
struct DashboardRoute: Sendable {
    let pages: WebPages
    private let compressed = CompressedAnswers(bounds: .init(countMax: 32))

    init(pages: WebPages) {
        self.pages = pages
    }

    /// Answers `GET /dashboard/` with the first file; without the slash, the files' relative addresses would be wrong.
    @Sendable func start(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        guard request.uri.path.hasSuffix("/") else {
            return Response(
                status: .permanentRedirect,
                headers: [.location: "dashboard/", .cacheControl: "no-cache"],
                body: ResponseBody()
            )
        }
        return try await answer(request, name: WebPages.startName)
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
        response.headers[.contentType] = file.mediaType
        response.headers[.cacheControl] = "no-cache"
        response.headers[.eTag] = files.entityTag
        response.headers[.contentSecurityPolicy] = WebPages.contentSecurityPolicy
        response.headers[.referrerPolicy] = "no-referrer"
        return response
    }
}

extension HTTPField.Name {
    fileprivate static let referrerPolicy = customName("Referrer-Policy")
}
