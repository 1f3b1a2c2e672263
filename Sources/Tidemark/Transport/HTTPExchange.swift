internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
internal import TidemarkCore
internal import TidemarkGzip

/// Sends a request and reads its answer; it turns every failure into a ``TidemarkError``.
struct HTTPExchange: Sendable {
    /// The largest error answer that the device reads, in bytes.
    private static let errorBytesMax = 1 << 20
    /// The process's connections for requests, for its whole life: one for each file that syncs at the same time.
    private static let client = makeClient(connectionsMax: 64)
    /// The process's connections for events, separate so that listeners do not block requests.
    static let listeners = makeClient(connectionsMax: 10_000)

    private static func makeClient(connectionsMax: Int) -> HTTPClient {
        var configuration = HTTPClient.Configuration()
        // A redirect means a captive portal or a wrong address.
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = .seconds(10)
        configuration.timeout.read = .seconds(60)
        configuration.timeout.write = .seconds(60)
        // Shorter than the server's idle timeout, so that no request uses a closing connection.
        configuration.connectionPool.idleTimeout = .seconds(20)
        // The session decides on retries.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connectionsMax
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }

    let address: ServerAddress
    let tokens: any TokenSource
    /// The user to whom the device's files belong, which each request states; nil for any.
    var user: String?
    /// The name of the device for the server's operators; nil for none.
    var deviceName: String?
    /// The trusted certificate authorities; nil for the system's.
    let tls: TLSConfiguration?
    /// The largest decompressed JSON answer, in bytes.
    let responseBytesMax: Int

    /// Reads the answer if the status is 200 or `other`; throws its error, a connection's, or `CancellationError`.
    func answer<Value>(
        to request: HTTPClientRequest, over client: HTTPClient? = nil, orStatus other: HTTPResponseStatus = .ok,
        read: (HTTPClientResponse) async throws -> Value
    ) async throws -> Value {
        do {
            let client = client ?? Self.client
            var lease = try await tokens.lease()
            var isLast = false
            while true {
                let response = try await send(request, with: lease, over: client)
                if [.ok, other].contains(response.status) { return try await read(response) }
                var refusal = try await refusal(response, hasToken: lease.token != nil)
                refusal.retryAfterSeconds = retryAfter(response)
                guard response.status == .unauthorized, !isLast else { throw refusal }
                guard let fresh = try await tokens.lease(afterRefusalOf: lease.token) else { throw refusal }
                lease = fresh
                isLast = true
            }
        } catch let error as TidemarkError { throw error } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            throw connectionError(error)
        }
    }

    /// Sends a request with a token, and returns the answer, whose body is not read yet.
    private func send(_ request: HTTPClientRequest, with lease: TokenLease, over client: HTTPClient) async throws
        -> HTTPClientResponse
    {
        // With the answer's head, the server has judged the token.
        defer { lease.lock?.release() }
        var request = request
        if let token = lease.token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        if let user { request.headers.add(name: "Tidemark-User", value: ServerAddress.encoded(user)) }
        if let deviceName {
            request.headers.add(name: "Tidemark-Device-Name", value: ServerAddress.encoded(deviceName))
        }
        if let tls { request.tlsConfiguration = tls }
        return try await client.execute(request, deadline: .distantFuture)
    }

    /// Reads the body of an answer that must be a JSON object.
    func json(_ response: HTTPClientResponse) async throws -> [UInt8] {
        let type = response.headers.first(name: "Content-Type") ?? "no content type"
        guard type.lowercased().hasPrefix("application/json") else { throw address.foreign("a page of \(type)") }
        let body = try await body(of: response, bytesMax: responseBytesMax)
        guard body.first(where: { !Self.whitespace.contains($0) }) == UInt8(ascii: "{") else {
            throw address.foreign("something else than a JSON object")
        }
        return body
    }

    /// Checks that a 304 comes from a Tidemark server: it must repeat the tag.
    func checkNotModified(_ response: HTTPClientResponse, for tag: ZoneTag) async throws {
        let responseTag = response.headers.first(name: "ETag").flatMap(ZoneTag.init(entityTag:))
        guard responseTag == tag else { throw address.foreign("304 without the tag that was asked for") }
        // The client closes a connection whose body is not read to its end.
        for try await _ in response.body {}
    }

    private static let whitespace = Set(" \t\r\n".utf8)

    private func body(of response: HTTPClientResponse, bytesMax: Int) async throws -> [UInt8] {
        let coding = response.headers.first(name: "Content-Encoding")?.lowercased() ?? "identity"
        guard ["identity", "gzip", "x-gzip"].contains(coding) else {
            throw address.foreign("a body in the unknown encoding \(coding)")
        }
        let gunzip = coding == "identity" ? nil : Gunzip(bytesMax: bytesMax)
        var body: [UInt8] = []
        for try await piece in response.body {
            if let gunzip {
                gunzip.feed(Array(piece.readableBytesView))
                while let block = try gunzip.next() { body += block }
            } else {
                body += piece.readableBytesView
                guard body.count <= bytesMax else { throw GzipError.tooLarge(bytesMax: bytesMax) }
            }
        }
        try gunzip?.finish()
        return body
    }

    private func refusal(_ response: HTTPClientResponse, hasToken: Bool) async throws -> TidemarkError {
        do {
            let body = try await body(of: response, bytesMax: Self.errorBytesMax)
            let error = try JSONDecoder().decode(WireError.self, from: Data(body)).tidemarkError
            // The server speaks of headers; a person has to sign in.
            return error.code == .signInNeeded && !hasToken ? address.signInNeeded(hasToken: false, scheme: nil) : error
        } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            // For some statuses the status suffices, even if the body is unreadable.
            if let statusError = refusal(by: response, hasToken: hasToken) { return statusError }
            guard error is DecodingError || error is GzipError else { throw error }
            let status = "\(response.status.code) \(response.status.reasonPhrase)"
            return address.foreign("status \(status)", fix: advice(response))
        }
    }

    /// Returns the error for a status that a proxy may have sent; nil if there is none.
    private func refusal(by response: HTTPClientResponse, hasToken: Bool) -> TidemarkError? {
        switch response.status {
        case .unauthorized:
            // `Basic realm="..."`: the first word is enough.
            let scheme = response.headers.first(name: "WWW-Authenticate").map {
                String($0.prefix { $0.isASCII && $0.isLetter })
            }
            return address.signInNeeded(hasToken: hasToken, scheme: scheme)
        case .forbidden: return address.notAllowed(hasToken: hasToken)
        case .tooManyRequests:
            return TidemarkError(
                .rateLimited, "\(address.hostAndPort) admits no more requests of this device for now (429).",
                fix: "Wait, and sync less often. Changes made here are kept, and sent later.")
        case .payloadTooLarge:
            return TidemarkError(
                .tooLarge, "\(address.hostAndPort) takes no request of this size (413).",
                fix: "Send less at a time, or have the server's limit raised.")
        default: return nil
        }
    }

    /// Returns the seconds of `Retry-After`; nil if it is missing or a date.
    private func retryAfter(_ response: HTTPClientResponse) -> Int? {
        response.headers.first(name: "Retry-After").flatMap { Int($0) }.flatMap { $0 < 0 ? nil : $0 }
    }

    private func advice(_ response: HTTPClientResponse) -> String {
        switch response.status.code {
        case 300..<400:
            let target = response.headers.first(name: "Location") ?? "elsewhere"
            return "It redirects to \(target): use the server's own address, or log in to the "
                + "network in a browser if the target is its login page."
        case 502...504: return "A proxy is there, but the server behind it is not: start it, or try again later."
        case 407, 511: return "Something on the way wants a login: log in in a browser and try again."
        case 400 where address.isPlain: return "Check the address; if the server speaks TLS, begin it with https://."
        default: return "Check that the address is the server's, path included."
        }
    }
}
