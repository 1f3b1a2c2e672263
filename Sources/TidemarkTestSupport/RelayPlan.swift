/// What happens to the connections of a ``TCPRelay``, decided by their order alone: a value.
///
/// ```swift
/// // The first request is cut in its hundredth byte, the second answer is lost, all is well then.
/// relay.follow(RelayPlan([.cut(.up, after: 100), .answerDropped]))
/// ```
public struct RelayPlan: Hashable, Sendable {
    private let faults: [Fault]
    private let others: Fault

    /// Makes a plan: the n-th fault is the n-th connection's, `others` is that of all after them.
    public init(_ faults: [Fault] = [], others: Fault = .none) {
        self.faults = faults
        self.others = others
    }

    /// What happens to the n-th connection, from 0.
    public func fault(of connection: Int) -> Fault { faults.indices.contains(connection) ? faults[connection] : others }

    /// A way through the relay.
    public enum Direction: Hashable, Sendable {
        /// From the client to the target.
        case up
        /// From the target to the client.
        case down
    }

    /// How a connection ends.
    public enum Ending: Hashable, Sendable {
        /// In order: what was sent arrives, then the end.
        case close
        /// At once, with a reset: what was sent may be lost as well.
        case reset
    }

    /// What happens to one connection.
    public enum Fault: Hashable, Sendable {
        /// Nothing.
        case none
        /// Both ends are hung up on when so many bytes have gone that way, and not one later.
        case cut(Direction, after: Int, Ending = .close)
        /// What comes after so many bytes is kept back until ``TCPRelay/release()``, or for so
        /// long.
        case stall(Direction, after: Int, for: Duration? = nil)
        /// That way ends after so many bytes; the other stays open.
        case halfClose(Direction, after: Int)
        /// All that the client sends goes to the target twice, on two connections at once; one of
        /// the answers arrives.
        case doubled
        /// Nothing goes up until a later connection has had an answer.
        case overtaken
        /// The target answers, the client hears nothing of it and is hung up on.
        case answerDropped
        /// The target never hears of it; when the client has sent a request, it gets this.
        case reply(CannedReply)
    }
}

/// What something that is not the server answers.
public struct CannedReply: Hashable, Sendable {
    /// All bytes, head included.
    public let bytes: [UInt8]
    /// Bytes that follow again and again until the client hangs up; none: the connection ends.
    public let forever: [UInt8]

    /// Makes a reply of bytes as they are.
    public init(_ bytes: [UInt8], forever: [UInt8] = []) {
        self.bytes = bytes
        self.forever = forever
    }

    /// Makes an HTTP answer; `declared` is its `Content-Length` when it lies.
    public init(status: String, headers: [String] = [], body: [UInt8] = [], declared: Int? = nil) {
        // The relay ends the connection; a client that is not told might use it once more before it
        // notices.
        let head =
            ["HTTP/1.1 \(status)"] + headers + ["Content-Length: \(declared ?? body.count)", "Connection: close"]
        self.init(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body)
    }

    private static let json = ["Content-Type: application/json"]

    /// A network's sign-in page, with success written all over it.
    public static let captivePortal = CannedReply(
        status: "200 OK",
        headers: ["Content-Type: text/html"],
        body: Array("<html><body>Welcome to the hotel. Please sign in.</body></html>".utf8)
    )
    /// A proxy whose server is away.
    public static let badGateway = CannedReply(
        status: "502 Bad Gateway",
        headers: ["Content-Type: text/html"],
        body: Array("<html><h1>502 Bad Gateway</h1></html>".utf8)
    )
    /// Plain JSON under the label gzip.
    public static let mislabelledGzip = CannedReply(
        status: "200 OK",
        headers: json + ["Content-Encoding: gzip"],
        body: Array(#"{"maxRevision":1}"#.utf8)
    )
    /// Nothing: the connection ends.
    public static let nothing = CannedReply([])
    /// An answer without an end.
    public static let endless = CannedReply(
        Array("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{".utf8),
        forever: [UInt8](repeating: UInt8(ascii: " "), count: 65_536)
    )

    /// An answer that is shorter than its `Content-Length` says.
    public static func shorterThanDeclared(_ body: [UInt8]) -> CannedReply {
        CannedReply(status: "200 OK", headers: json, body: body, declared: body.count + 100)
    }

    /// A gzip body that ends too early, although its length is the declared one.
    public static func truncatedGzip(_ compressed: [UInt8]) -> CannedReply {
        CannedReply(
            status: "200 OK",
            headers: json + ["Content-Encoding: gzip"],
            body: Array(compressed.dropLast(max(1, compressed.count / 3)))
        )
    }
}
