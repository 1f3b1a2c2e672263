internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// Reads the rest of a refused upload, so that the client can read the refusal.
///
/// Most clients read the answer only after they sent everything, and closing a connection with unread
/// bytes discards the answer. So the server reads and drops the rest, within bounds.
struct UploadDrain {
    private static let bytesMax = 64 << 20
    private static let durationMax = Duration.seconds(20)

    private var bytes = 0
    private let deadline = ContinuousClock.now + durationMax

    /// Drops a piece, and returns whether to wait for the next.
    mutating func drop(_ piece: ByteBuffer) -> Bool {
        bytes += piece.readableBytes
        return bytes <= Self.bytesMax && ContinuousClock.now < deadline
    }

    /// Drops a body that the server has not begun to read, unless the request announces one beyond the bounds.
    ///
    /// - Returns: Whether the body ended within the bounds.
    static func dropBody(of request: Request) async throws -> Bool {
        guard !request.waitsForPermission, request.announcedLength ?? 0 <= bytesMax else { return false }
        var drain = UploadDrain()
        do {
            for try await piece in request.body where !drain.drop(piece) { return false }
            return true
        } catch is TidemarkError { return false } catch { throw ClientGone(cause: error) }
    }
}

extension Request {
    /// The length of the body that the request announces, in bytes; the greatest integer for one that is greater.
    var announcedLength: Int? { headers[.contentLength].map { Int($0) ?? .max } }

    /// Whether the client waits for `100 Continue` before it sends its body.
    var waitsForPermission: Bool { headers[.expect] != nil }
}
