internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /snapshot`: streams the zone's compressed SQLite file from disk.
///
/// The content type is gzip, without `Content-Encoding`, so no proxy decompresses the file, and its
/// length is known. A client can resume an interrupted download. It must name the file's tag in
/// `If-Range`, because only the same file continues with the same bytes.
struct SnapshotRoute {
    let service: any SyncService
    let firstSnapshots: FirstSnapshots

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let requestedPart = SnapshotPart(request)
        let base = Self.base(request)
        let earlierSnapshot = try await findSnapshot(of: requestedPart, access: access)
        let snapshot =
            if let earlierSnapshot {
                earlierSnapshot
            } else if base == .nothing {
                try await firstSnapshots.snapshot(access)
            } else {
                try await service.snapshot(access, since: base)
            }
        let lease = SnapshotLease(snapshot: snapshot, service: service)
        let part = try requestedPart?.bytes(of: snapshot)
        var headers = headers(for: snapshot)
        if let part { headers[.contentRange] = snapshot.contentRange(part) }
        let file = try await contents(of: snapshot, part, context: context)
        let body = ResponseBody(contentLength: file.contentLength) { [lease] writer in
            try await file.write(writer)
            withExtendedLifetime(lease) {}
        }
        return Response(status: part == nil ? .ok : .partialContent, headers: headers, body: body)
    }

    /// Returns the file of a requested part, if it still exists.
    private func findSnapshot(of part: SnapshotPart?, access: ZoneAccess) async throws -> SnapshotFile? {
        guard let part else { return nil }
        return try await service.snapshot(access, tag: part.tag)
    }

    /// Reads the device's base from the query; an invalid one counts as none, as the whole snapshot is always correct.
    private static func base(_ request: Request) -> DeltaBase? {
        guard let revision = request.query("since").flatMap({ Int64($0) }), revision >= 0 else { return nil }
        guard let epoch = request.query("epoch"), let schema = request.query("schema") else {
            return revision == 0 ? .nothing : nil
        }
        return DeltaBase(epoch: epoch, revision: revision, schema: schema)
    }

    private func contents(of snapshot: SnapshotFile, _ part: ClosedRange<Int>?, context: ServerRequestContext)
        async throws -> ResponseBody
    {
        do {
            return try await FileIO().loadFile(
                path: snapshot.path, range: part ?? 0...Int.max - 1, context: context,
                chunkLength: JSONAnswer.pieceBytesMax)
        } catch {
            // Hummingbird's error would become a 404, as if the path were unknown.
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

/// A snapshot's file disappeared or became unreadable.
private struct UnreadableSnapshot: Error {
    let path: String
    let cause: any Error
}

/// Releases a snapshot with the body of its answer: after the last byte, or when the client disconnects before.
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
    static let tidemarkEpoch = customName("Tidemark-Epoch")
    static let tidemarkRevision = customName("Tidemark-Revision")

    /// Creates a header name that HTTPTypes lacks.
    static func customName(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("not a token: \(name)") }
        return name
    }
}
