internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore

/// Fetches a provider's published keys over HTTP.
package struct FetchKeys: Sendable {
    package static let bytesMax = 1 << 20
    /// How long the provider may take in total.
    private let patience: Duration
    /// The process's connections to providers; they live as long as the process does.
    private static let client = makeClient()

    private static func makeClient() -> HTTPClient {
        var configuration = HTTPClient.Configuration()
        // A redirect could lead to another server, whose keys the configuration does not name.
        configuration.redirectConfiguration = .disallow
        configuration.connectionPool.idleTimeout = .seconds(20)
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }

    package init(patience: Duration = .seconds(10)) { self.patience = patience }

    /// Whether keys may come from an address: over https, or from this machine.
    package static func isSafe(_ url: String) -> Bool {
        guard let parts = URLComponents(string: url), let scheme = parts.scheme?.lowercased(),
            let host = parts.host, !host.isEmpty, parts.user == nil, parts.password == nil, parts.fragment == nil
        else { return false }
        return scheme == "https" || scheme == "http" && Loopback.contains(host)
    }

    /// Returns the bytes at an address; throws the reason, in words.
    func bytes(at url: String) async throws(KeySetProblem) -> [UInt8] {
        guard Self.isSafe(url) else { throw KeySetProblem("the address is neither https nor on this machine") }
        do {
            let limit = TimeAmount.milliseconds(Int64(patience / .milliseconds(1)))
            let response = try await Self.client.execute(HTTPClientRequest(url: url), timeout: limit)
            guard response.status == .ok else {
                throw KeySetProblem("the provider answered with status \(response.status.code)")
            }
            let body = try await response.body.collect(upTo: Self.bytesMax)
            return Array(body.readableBytesView)
        } catch let problem as KeySetProblem { throw problem } catch is NIOTooManyBytesError {
            throw KeySetProblem("the provider's answer has more than \(Self.bytesMax) bytes")
        } catch { throw KeySetProblem("the provider cannot be reached: \(error)") }
    }
}
