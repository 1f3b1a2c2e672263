internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkServer

/// `GET /snapshot`: the zone's SQLite file, compressed, read from disk in pieces as the client
/// takes it.
///
/// The file itself is gzip, so the content type says so and there is no `Content-Encoding`: nothing
/// on the way may unpack it, and its length is known. A part of it, the rest of a download that was
/// cut, is answered only to who says of which file, by `If-Range`: its tag names the bytes.
struct SnapshotRoute {
    let service: any SyncService

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        let zone = try context.zone
        let asked = SnapshotPart(request)
        let base = Self.base(request.uri.queryParameters)
        let kept = try await kept(asked, of: zone)
        let snapshot = if let kept { kept } else { try await service.snapshot(zone: zone, since: base) }
        let lease = SnapshotLease(snapshot: snapshot, service: service)
        let part = try asked?.bytes(of: snapshot)
        var headers = headers(for: snapshot)
        if let part { headers[.contentRange] = snapshot.contentRange(part) }
        let file = try await contents(of: snapshot, part, context: context)
        let body = ResponseBody(contentLength: file.contentLength) { [lease] writer in
            try await file.write(writer)
            withExtendedLifetime(lease) {}
        }
        return Response(status: part == nil ? .ok : .partialContent, headers: headers, body: body)
    }

    /// The file whose rest is asked for, when it is still there.
    private func kept(_ part: SnapshotPart?, of zone: String) async throws -> SnapshotFile? {
        guard let part else { return nil }
        return try await service.snapshot(zone: zone, tag: part.tag)
    }

    /// What the device has, if it says so; whatever else stands there counts for nothing, and the
    /// whole snapshot is always right.
    private static func base(_ query: Parameters) -> DeltaBase? {
        guard let revision = query["since"].flatMap({ Int64($0) }), revision >= 0 else { return nil }
        guard let epoch = query["epoch"], let schema = query["schema"] else { return revision == 0 ? .nothing : nil }
        return DeltaBase(epoch: String(epoch), revision: revision, schema: String(schema))
    }

    private func contents(of snapshot: SnapshotFile, _ part: ClosedRange<Int>?, context: ServerRequestContext)
        async throws -> ResponseBody
    {
        do {
            return try await FileIO().loadFile(
                path: snapshot.path,
                range: part ?? 0...Int.max - 1,
                context: context,
                chunkLength: JSONAnswer.pieceBytesMax
            )
        } catch {
            // It must not look like a path that the server does not have.
            throw UnreadableSnapshot(path: snapshot.path, cause: error)
        }
    }

    private func headers(for snapshot: SnapshotFile) -> HTTPFields {
        [
            .contentType: "application/gzip", .cacheControl: "no-store", .acceptRanges: "bytes",
            .eTag: "\"\(snapshot.tag)\"", .tidemarkEpoch: snapshot.epoch, .tidemarkRevision: "\(snapshot.revision)",
        ]
    }
}

/// A snapshot's file was there a moment ago and is not any more.
private struct UnreadableSnapshot: Error {
    let path: String
    let cause: any Error
}

/// A snapshot in use, given back when nobody holds it any more.
///
/// That is after its last byte, when the client went away half-way, or when the answer was never
/// begun: whatever happens, the answer's body goes away, and the lease with it.
private final class SnapshotLease: Sendable {
    let snapshot: SnapshotFile
    private let service: any SyncService

    init(snapshot: SnapshotFile, service: any SyncService) {
        self.snapshot = snapshot
        self.service = service
    }

    deinit { Task { [snapshot, service] in await service.releaseSnapshot(snapshot) } }
}

extension HTTPField.Name {
    /// The epoch of the zone that a snapshot holds.
    static let tidemarkEpoch = named("Tidemark-Epoch")
    /// The revision that a snapshot holds.
    static let tidemarkRevision = named("Tidemark-Revision")

    /// A name that HTTPTypes does not have.
    static func named(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("not a token: \(name)") }
        return name
    }
}
