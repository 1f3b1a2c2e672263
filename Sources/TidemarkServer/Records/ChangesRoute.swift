internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /changes`: what changed since a place in the log, as pages, and as a stream of events.
struct ChangesRoute: Sendable {
    let service: any SyncService
    let memory: InFlightMemory
    let watch: AccessWatch

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let items = try request.queryItems
        let lastID = request.headers[.lastEventID]
        if Self.wantsEvents(request) {
            return try await stream(items, after: lastID, to: request, context: context, access: access)
        }
        let page = try await page(items, since: nil, access)
        return try await JSONAnswer.response(Array(page.json.utf8), to: request.headers, share: memory.share())
    }

    static func wantsEvents(_ request: Request) -> Bool {
        request.headers[.accept]?.contains("text/event-stream") == true
    }

    private func page(_ items: [ListQuery.Item], since: String?, _ access: ZoneAccess) async throws -> ReadChanges.Page
    {
        try await service.read(
            access,
            ZoneQuestion { reader in
                let query = try FeedQuery(items, schema: reader.schema)
                let start = try reader.feedPosition(since: since ?? query.since)
                return try ReadChanges(query, reader).page(after: start)
            }
        )
    }

    /// The largest page that an event carries; a larger one is only announced.
    private static let eventBytesMax = 64 << 10

    private func stream(
        _ items: [ListQuery.Item], after lastID: String?, to request: Request, context: ServerRequestContext,
        access: ZoneAccess
    ) async throws -> Response {
        let listener = try service.fanOut.listen(to: access.zone)
        service.fanOut.publish(try await service.latest(access))
        // The first page is read before the answer begins, so that a wrong request has a status.
        let first = try await page(items, since: lastID, access)
        let channel = context.channel
        let token = try BearerToken.text(in: request)
        let body = ResponseBody { [self] writer in
            try await EventsRoute.configure(channel, for: listener)
            try await writer.write(EventStream.opening)
            var rights = ListenerRights(of: access.caller)
            var page = first
            // The first page goes out even if it is empty, because it tells the place.
            var isDue = true
            while true {
                if isDue {
                    // The page may have rows that were written after the end of the sender's access.
                    let end = ZoneRevision(zone: access.zone, epoch: page.epoch, revision: page.revision)
                    guard try await watch.admits(&rights, access: access, token: token, to: end) else { break }
                    try await writer.write(Self.event(page))
                }
                guard !page.hasMore else {
                    page = try await self.page(items, since: page.next.text, access)
                    isDue = true
                    continue
                }
                guard let message = await listener.next(), message != .bye,
                    try await watch.admits(&rights, access: access, token: token)
                else { break }
                isDue = false
                guard message != .heartbeat else {
                    try await writer.write(try EventStream.text(.heartbeat))
                    continue
                }
                page = try await self.page(items, since: page.next.text, access)
                isDue = !page.isEmpty || page.hasMore
            }
            listener.leave()
            try await writer.write(try EventStream.text(.bye))
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: EventStream.headers, body: body)
    }

    private static func event(_ page: ReadChanges.Page) -> ByteBuffer {
        guard page.json.utf8.count <= eventBytesMax else {
            return ByteBuffer(
                string: "event: large\nid: \(page.next.text)\ndata: {\"next\":\(JSONText.quote(page.next.text))}\n\n")
        }
        return ByteBuffer(string: "event: changes\nid: \(page.next.text)\ndata: \(page.json)\n\n")
    }
}
