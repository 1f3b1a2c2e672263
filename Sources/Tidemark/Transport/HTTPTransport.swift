internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
public import TidemarkCore
internal import TidemarkGzip

/// A transport over HTTP, with gzip in both directions.
///
/// ```swift
/// let transport = try HTTPTransport(url: "https://sync.example.com")
/// ```
///
/// A value without state of its own: all transports of a process share their connections.
public struct HTTPTransport: Transport {
    /// The size above which a request is compressed, in bytes.
    private static let compressedBytesMin = 1 << 10
    /// The default size limit of a decompressed snapshot: 64 GiB.
    public static let snapshotBytesMaxDefault = 64 << 30
    let address: ServerAddress
    private(set) var exchange: HTTPExchange
    private let snapshotBytesMax: Int

    /// Makes a transport to the server at `url`, for instance `https://sync.example.com/team-a`.
    ///
    /// - Parameters:
    ///   - url: A URL that starts with `http://` or `https://`; its path precedes the server's paths.
    ///   - limits: The limits of this device, above all ``TidemarkCore/Limits/responseBytesMax``.
    ///   - snapshotBytesMax: The largest decompressed snapshot that this device accepts.
    ///   - credentials: The bearer token, or a provider of it.
    ///   - user: The user to whom the device's files belong; a server with users refuses requests with the
    ///     token of another one. Nil for any.
    ///   - certificateAuthorities: The path of a PEM file with authorities to trust in place of the
    ///     system's; read once.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for an invalid URL, and for credentials over `http` to
    ///   another machine; ``TidemarkCore/ErrorCode/unusableFile`` for a file without certificates.
    public init(
        url: String, limits: Limits = .standard, snapshotBytesMax: Int = HTTPTransport.snapshotBytesMaxDefault,
        credentials: Credentials = .none, user: String? = nil, certificateAuthorities: String? = nil
    ) throws(TidemarkError) {
        address = try ServerAddress(url)
        if credentials.isAlwaysSent { try address.requireSecrecy() }
        var tls: TLSConfiguration?
        if let certificateAuthorities {
            tls = try CertificateAuthorities.configuration(trusting: certificateAuthorities)
        }
        exchange = HTTPExchange(
            address: address,
            tokens: credentials.source(address, TokenExchange(address: address, tls: tls).run),
            user: user, tls: tls, responseBytesMax: limits.responseBytesMax)
        self.snapshotBytesMax = snapshotBytesMax
    }

    func named(_ name: String?) -> HTTPTransport {
        var named = self
        named.exchange.deviceName = name
        return named
    }

    /// Returns the transport with the user to whom a file belongs; nil for a file of nobody yet.
    func stating(_ user: String?) -> HTTPTransport {
        var stating = self
        if let user { stating.exchange.user = user }
        return stating
    }

    /// Sends a sync request and returns the answer's decompressed JSON.
    @concurrent public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await post(body, to: address.url(zone: zone, path: "sync"))
    }

    /// Asks for newer revisions by a conditional `GET /sync` with the tag as entity tag.
    @concurrent public func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        var request = HTTPClientRequest(url: address.url(zone: zone, path: "sync", device: device))
        request.headers.add(name: "If-None-Match", value: tag.entityTag)
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        return try await exchange.answer(to: request, orStatus: .notModified) { response in
            guard response.status == .notModified else { return try await exchange.json(response) }
            try await exchange.checkNotModified(response, for: tag)
            return nil
        }
    }

    /// Sends ranges of rows to compare and returns the answer's decompressed JSON.
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

    /// Returns a number that changes with the token; nil without a token.
    @concurrent public func credentialsMark() async -> Int? { await exchange.tokens.mark() }

    /// Downloads the zone's snapshot and writes it, decompressed, to a new file at `path`.
    ///
    /// The file appears at `path` only when it is complete and durable. Until then it is at `path` with the suffix
    /// `.part`, and a failure or cancellation removes it. The bytes as received are at `path` with the suffix
    /// `.received`: with them, the download resumes after a broken connection, and the next call for this path does so
    /// after a cancellation or the end of the process. The caller removes them after it has used the file.
    @concurrent public func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        // All three consist of characters that are valid in a URL.
        let query = base.map {
            "?since=\($0.revision)" + ($0 == .nothing ? "" : "&epoch=\($0.epoch)&schema=\($0.schema)")
        }
        let download = SnapshotDownload(
            exchange: exchange, url: address.url(zone: zone, path: "snapshot") + (query ?? ""), path: path,
            bytesMax: snapshotBytesMax)
        try await download.run(progress: progress)
    }

    /// Fetches the statements that create the zone's tables, as decompressed JSON.
    @concurrent public func schema(zone: String) async throws -> [UInt8] {
        try await exchange.get(address.url(zone: zone, path: "schema"))
    }

    /// Fetches the changes of one record, newest first, as decompressed JSON.
    @concurrent public func history(zone: String, table: String, key: String) async throws -> [UInt8] {
        let path = "tables/\(ServerAddress.encoded(table))/\(key)/history?limit=500"
        return try await exchange.get(address.url(zone: zone, path: path))
    }

    /// Listens to `GET /events` until the stream ends or falls silent.
    @concurrent public func listen(
        zone: String, device: String, from revision: ZoneRevision?, heard: @Sendable (PushEvent) -> Void
    ) async throws {
        let url = address.url(zone: zone, path: "events", device: device)
        try await exchange.events(url, of: zone, after: revision, heard: heard)
    }

    /// Fetches the content hash of every table on the server.
    @concurrent public func digest(zone: String) async throws -> ZoneDigest {
        try exchange.decode(ZoneDigest.self, from: await exchange.get(address.url(zone: zone, path: "digest")))
    }
}

/// A request's body in pieces, so that a slow upload with progress does not time out.
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
