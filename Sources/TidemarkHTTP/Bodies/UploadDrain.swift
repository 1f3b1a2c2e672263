internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// Reads the rest of an upload that nobody wants, so that its sender gets to see why.
///
/// Most clients look for an answer only when they have sent everything, and a connection closed on
/// unread bytes takes the answer on its way along. So the rest is read and dropped, within bounds.
struct UploadDrain {
    private static let bytesMax = 64 << 20
    private static let durationMax = Duration.seconds(20)

    private var bytes = 0
    private let deadline = ContinuousClock.now + durationMax

    /// Drops a piece, and says whether it is worth while to wait for the next.
    mutating func drop(_ piece: ByteBuffer) -> Bool {
        bytes += piece.readableBytes
        return bytes <= Self.bytesMax && ContinuousClock.now < deadline
    }

    /// Drops a body of which nothing has been read yet.
    ///
    /// - Returns: Whether that was all of it.
    static func dropBody(of request: Request) async throws -> Bool {
        guard !request.waitsForPermission else { return false }
        var drain = UploadDrain()
        do {
            for try await piece in request.body where !drain.drop(piece) { return false }
            return true
        } catch { throw ClientGone(cause: error) }
    }
}

extension Request {
    /// Whether the client sends its body only when told to go on.
    var waitsForPermission: Bool { headers[.expect] != nil }
}
