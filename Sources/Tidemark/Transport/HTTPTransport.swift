internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
public import TidemarkCore
internal import TidemarkGzip

/// The way to a server over HTTP, with gzip in both directions.
///
/// ```swift
/// let transport = try HTTPTransport(url: "https://sync.example.com")
/// ```
///
/// A value without state of its own: all transports of a process share their connections.
public struct HTTPTransport: Transport {
    /// Smaller requests travel as they are.
    private static let compressedBytesMin = 1 << 10
    /// The largest snapshot taken, decompressed, when nobody says otherwise: 64 GiB.
    public static let snapshotBytesMaxDefault = 64 << 30

    private let address: ServerAddress
    private let exchange: HTTPExchange
    private let snapshotBytesMax: Int

    /// Makes a transport to the server at `url`, for instance `https://sync.example.com/team-a`.
    ///
    /// - Parameters:
    ///   - url: Starts with `http://` or `https://`; a path stands before the server's own paths.
    ///   - limits: What this device takes, above all ``TidemarkCore/Limits/responseBytesMax``.
    ///   - snapshotBytesMax: The largest snapshot that this device takes, decompressed.
    ///   - credentials: What says who asks.
    ///   - certificateAuthorities: The path of a PEM file of those to trust in place of the
    ///     system's; read once.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for a URL that is none of these, and
    ///   for credentials that others could read on the way, over `http` to another machine;
    ///   ``TidemarkCore/ErrorCode/unusableFile`` for a file without certificates.
    public init(
        url: String,
        limits: Limits = .standard,
        snapshotBytesMax: Int = HTTPTransport.snapshotBytesMaxDefault,
        credentials: Credentials = .none,
        certificateAuthorities: String? = nil
    ) throws(TidemarkError) {
        address = try ServerAddress(url)
        guard credentials.isNone || !address.isReadableOnTheWay else {
            throw TidemarkError(
                .invalidArgument,
                "The token would travel to \(address.hostAndPort) for everybody on the way to read.",
                fix: "Use https:// for a server on another machine, or give no token (TIDEMARK_TOKEN, --token-file)."
            )
        }
        var tls: TLSConfiguration?
        if let certificateAuthorities {
            tls = try CertificateAuthorities.configuration(trusting: certificateAuthorities)
        }
        exchange = HTTPExchange(
            address: address,
            credentials: credentials,
            tls: tls,
            responseBytesMax: limits.responseBytesMax
        )
        self.snapshotBytesMax = snapshotBytesMax
    }

    /// Sends one round and returns the answer's JSON, decompressed.
    @concurrent public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await post(body, to: address.url(zone: zone, path: "sync"))
    }

    /// Asks what is new by `GET /sync`: the tag is an entity tag of HTTP.
    @concurrent public func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        var request = HTTPClientRequest(url: address.url(zone: zone, path: "sync", device: device))
        request.headers.add(name: "If-None-Match", value: tag.entityTag)
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        return try await exchange.answer(to: request, besides: .notModified) { response in
            guard response.status == .notModified else { return try await exchange.json(response) }
            try await exchange.confirm(response, of: tag)
            return nil
        }
    }

    /// Sends ranges of rows to be compared and returns the answer's JSON, decompressed.
    @concurrent public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await post(body, to: address.url(zone: zone, path: "fingerprints"))
    }

    private func post(_ body: [UInt8], to url: String) async throws -> [UInt8] {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        var content = body
        if body.count > Self.compressedBytesMin {
            request.headers.add(name: "Content-Encoding", value: "gzip")
            content = await blocking { gzip(body) }
        }
        request.body = .stream(UploadPieces(ByteBuffer(bytes: content)), length: .known(Int64(content.count)))
        return try await exchange.answer(to: request, read: exchange.json)
    }

    /// Downloads the zone's snapshot and writes it, decompressed, to a new file at `path`.
    ///
    /// The file appears at `path` only when it is whole and on disk; until then it is `path` with
    /// `.part` appended, and a failure or a cancellation removes that. A connection that breaks is
    /// made again, and the download goes on at the byte.
    @concurrent public func snapshot(
        zone: String,
        since base: DeltaBase?,
        to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        // All three are made of characters that an URL may have.
        let query = base.map {
            "?since=\($0.revision)" + ($0 == .nothing ? "" : "&epoch=\($0.epoch)&schema=\($0.schema)")
        }
        let download = SnapshotDownload(
            exchange: exchange,
            url: address.url(zone: zone, path: "snapshot") + (query ?? ""),
            path: path,
            bytesMax: snapshotBytesMax
        )
        try await download.run(progress: progress)
    }

    /// The statements that make the zone's tables, JSON, decompressed.
    @concurrent public func schema(zone: String) async throws -> [UInt8] {
        var request = HTTPClientRequest(url: address.url(zone: zone, path: "schema"))
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        return try await exchange.answer(to: request, read: exchange.json)
    }

    /// Listens to `GET /events` until the stream ends or falls silent.
    @concurrent public func listen(
        zone: String,
        device: String,
        from known: ZoneRevision?,
        heard: @Sendable (PushEvent) -> Void
    ) async throws {
        let url = address.url(zone: zone, path: "events", device: device)
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "Accept", value: "text/event-stream")
        if let known { request.headers.add(name: "Last-Event-ID", value: known.id) }
        let listening = EventListening(address: address, zone: zone)
        try await exchange.answer(to: request, over: HTTPExchange.listeners) { response in
            try await listening.run(response, heard: heard)
        }
    }

    /// The content hash of every table on the server.
    @concurrent public func digest(zone: String) async throws -> ZoneDigest {
        var request = HTTPClientRequest(url: address.url(zone: zone, path: "digest"))
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        let json = try await exchange.answer(to: request, read: exchange.json)
        do { return try JSONDecoder().decode(ZoneDigest.self, from: Data(json)) } catch {
            throw address.foreign("JSON that is not a digest")
        }
    }
}

/// A request's body in pieces, so that the timeout sees a slow upload move.
private struct UploadPieces: AsyncSequence, Sendable {
    private static let pieceBytesMax = 64 << 10
    private let content: ByteBuffer

    init(_ content: ByteBuffer) { self.content = content }

    func makeAsyncIterator() -> Iterator { Iterator(rest: content) }

    struct Iterator: AsyncIteratorProtocol {
        var rest: ByteBuffer

        mutating func next() async -> ByteBuffer? {
            guard rest.readableBytes > 0 else { return nil }
            return rest.readSlice(length: Swift.min(rest.readableBytes, pieceBytesMax))
        }
    }
}
