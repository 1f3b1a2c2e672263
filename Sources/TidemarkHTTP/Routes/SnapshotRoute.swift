internal import HTTPTypes
internal import Hummingbird
internal import TidemarkServer

/// `GET /snapshot`: the zone's SQLite file, compressed, read from disk in pieces as the client
/// takes it.
///
/// The file itself is gzip, so the content type says so and there is no `Content-Encoding`: nothing
/// on the way may unpack it, and its length is known.
struct SnapshotRoute {
    let service: any SyncService

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws
        -> Response
    {
        let lease = SnapshotLease(
            snapshot: try await service.snapshot(zone: try context.zone),
            service: service
        )
        let file = try await contents(of: lease.snapshot, context: context)
        let body = ResponseBody(contentLength: file.contentLength) { [lease] writer in
            try await file.write(writer)
            withExtendedLifetime(lease) {}
        }
        return Response(status: .ok, headers: headers(for: lease.snapshot), body: body)
    }

    private func contents(
        of snapshot: SnapshotFile,
        context: ServerRequestContext
    ) async throws -> ResponseBody {
        do {
            return try await FileIO().loadFile(
                path: snapshot.path,
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
            .contentType: "application/gzip",
            .cacheControl: "no-store",
            .eTag: "\"\(snapshot.epoch)-\(snapshot.revision)\"",
            .tidemarkEpoch: snapshot.epoch,
            .tidemarkRevision: "\(snapshot.revision)",
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
        (self.snapshot, self.service) = (snapshot, service)
    }

    deinit {
        Task { [snapshot, service] in await service.releaseSnapshot(snapshot) }
    }
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
