internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Synchronization
internal import TidemarkCore

struct ServerRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The connection, which a route closes if a refused upload continues.
    let channel: any Channel
    let notes = RequestNotes()

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// The address of the client; nil if the connection has ended.
    var clientAddress: String? { notes.forwardedClient ?? channel.remoteAddress?.ipAddress }
}

/// Values that handlers pass to one another along a request.
final class RequestNotes: Sendable {
    private struct Values {
        var code: ErrorCode?
        var forwardedClient: String?
    }

    private let values = Mutex(Values())

    var code: ErrorCode? {
        get { values.withLock { $0.code } }
        set { values.withLock { $0.code = newValue } }
    }

    /// The address of the client, as a proxy has passed it on; nil without proxies.
    var forwardedClient: String? {
        get { values.withLock { $0.forwardedClient } }
        set { values.withLock { $0.forwardedClient = newValue } }
    }
}

/// The part of a client's address by which the server counts failed sign-ins.
enum ClientNetwork {
    /// The bytes of an IPv6 address that its owner cannot choose freely.
    private static let prefixBytes = 8
    /// The first bytes of an IPv4 address in the form of an IPv6 one.
    private static let mappedPrefix: [UInt8] = Array(repeating: 0, count: 10) + [0xff, 0xff]

    /// Returns an IPv4 address, or the first 64 bits of an IPv6 address; one text for all without an address.
    static func name(of address: String?) -> String {
        guard let text = address else { return "local" }
        var bytes = in6_addr()
        // The zone of a link-local address is no part of its number.
        guard inet_pton(AF_INET6, String(text.prefix { $0 != "%" }), &bytes) == 1 else { return text }
        return withUnsafeBytes(of: bytes) { bytes in
            bytes.starts(with: mappedPrefix)
                ? bytes.suffix(4).map(String.init).joined(separator: ".")
                : bytes.prefix(prefixBytes).map(String.init).joined(separator: ":")
        }
    }
}

/// The token of a request: `Authorization: Bearer TOKEN` (RFC 6750).
enum BearerToken {
    private static let bytesMax = 8 << 10

    /// Returns the token, nil without the header; throws `signInNeeded` for another scheme or too long a token.
    static func text(in request: Request) throws -> String? {
        guard let value = request.headers[.authorization] else { return nil }
        let parts = value.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer", parts[1].utf8.count <= bytesMax else {
            throw TidemarkError(
                .signInNeeded, "This server understands bearer tokens only.",
                fix: "Send Authorization: Bearer and a token of at most \(bytesMax) bytes.")
        }
        return String(parts[1])
    }
}

/// `Tidemark-Device-Name`: the name of the sending device, for the server's operators.
enum StatedName {
    private static let field = HTTPField.Name.customName("Tidemark-Device-Name")

    /// Returns the decoded name; an unusable one counts as none, because it must not make a device's request fail.
    static func name(in request: Request) -> String? {
        guard let name = request.headers[field]?.removingPercentEncoding, DeviceName.isUsable(name) else { return nil }
        return name
    }
}

/// Whether the server wants more requests; false after a signal to stop.
final class Readiness: Sendable {
    private let stopping = Mutex(false)
    var isStopping: Bool { stopping.withLock { $0 } }

    /// Marks the server as stopping, so that load balancers avoid it; it still answers requests.
    func stop() { stopping.withLock { $0 = true } }
}
