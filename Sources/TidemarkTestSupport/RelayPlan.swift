/// The faults of the connections of a ``TCPRelay``, decided by their order alone: a value.
///
/// ```swift
/// // The first request is cut in its hundredth byte, the second answer is lost, all is well then.
/// relay.follow(RelayPlan([.cut(.up, after: 100), .answerDropped]))
/// ```
public struct RelayPlan: Hashable, Sendable {
    private let faults: [Fault]
    private let others: Fault

    /// Makes a plan: the n-th fault is for the n-th connection, `others` for all after them.
    public init(_ faults: [Fault] = [], others: Fault = .none) {
        self.faults = faults
        self.others = others
    }

    /// The fault of the n-th connection, from 0.
    public func fault(of connection: Int) -> Fault { faults.indices.contains(connection) ? faults[connection] : others }

    /// A direction through the relay.
    public enum Direction: Hashable, Sendable {
        /// From the client to the target.
        case up
        /// From the target to the client.
        case down
    }

    /// How a connection ends.
    public enum Ending: Hashable, Sendable {
        /// In order: all sent bytes arrive, then the end.
        case close
        /// At once, with a reset: sent bytes may be lost as well.
        case reset
    }

    /// The fault of one connection.
    public enum Fault: Hashable, Sendable {
        /// No fault.
        case none
        /// Both ends are closed after so many bytes in that direction, and not one later.
        case cut(Direction, after: Int, Ending = .close)
        /// Later bytes are held until ``TCPRelay/release()``, or for the given time.
        case stall(Direction, after: Int, for: Duration? = nil)
        /// That direction ends after so many bytes; the other stays open.
        case halfClose(Direction, after: Int)
        /// All bytes of the client go to the target twice, on two connections at once; one of the
        /// answers arrives.
        case doubled
        /// Nothing goes up until a later connection has had an answer.
        case overtaken
        /// The target answers, but the client gets nothing and is closed.
        case answerDropped
        /// The target gets nothing; when the client has sent a request, it gets this reply.
        case reply(CannedReply)
    }
}

/// An answer that does not come from the server.
public struct CannedReply: Hashable, Sendable {
    /// All bytes, head included.
    public let bytes: [UInt8]
    /// Bytes that follow again and again until the client hangs up; empty: the connection ends.
    public let forever: [UInt8]

    /// Makes a reply of the given bytes.
    public init(_ bytes: [UInt8], forever: [UInt8] = []) {
        self.bytes = bytes
        self.forever = forever
    }

    /// Makes an HTTP answer; `declared` is a false `Content-Length`.
    public init(status: String, headers: [String] = [], body: [UInt8] = [], declared: Int? = nil) {
        // The relay ends the connection. A client without this header might use it once more before
        // it notices.
        let head =
            ["HTTP/1.1 \(status)"] + headers + ["Content-Length: \(declared ?? body.count)", "Connection: close"]
        self.init(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body)
    }

    private static let json = ["Content-Type: application/json"]

    /// A network's sign-in page, with status 200.
    public static let captivePortal = CannedReply(
        status: "200 OK", headers: ["Content-Type: text/html"],
        body: Array("<html><body>Welcome to the hotel. Please sign in.</body></html>".utf8))
    /// A proxy whose server is away.
    public static let badGateway = CannedReply(
        status: "502 Bad Gateway", headers: ["Content-Type: text/html"],
        body: Array("<html><h1>502 Bad Gateway</h1></html>".utf8))
    /// Plain JSON declared as gzip.
    public static let mislabelledGzip = CannedReply(
        status: "200 OK", headers: json + ["Content-Encoding: gzip"], body: Array(#"{"maxRevision":1}"#.utf8))
    /// No reply: the connection ends.
    public static let nothing = CannedReply([])
    /// An answer without an end.
    public static let endless = CannedReply(
        Array("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{".utf8),
        forever: [UInt8](repeating: UInt8(ascii: " "), count: 65_536))

    /// An answer that is shorter than its `Content-Length`.
    public static func shorterThanDeclared(_ body: [UInt8]) -> CannedReply {
        CannedReply(status: "200 OK", headers: json, body: body, declared: body.count + 100)
    }

    /// A gzip body that ends too early, although its length is the declared one.
    public static func truncatedGzip(_ compressed: [UInt8]) -> CannedReply {
        CannedReply(
            status: "200 OK", headers: json + ["Content-Encoding: gzip"],
            body: Array(compressed.dropLast(max(1, compressed.count / 3))))
    }
}
