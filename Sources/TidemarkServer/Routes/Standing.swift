internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkEngine

/// The access of a request that lasts: a body can take minutes to arrive, and an answer can wait for the zone.
///
/// The gate decides when a request begins. This asks it again, so that nothing that was written after the end of the
/// sender's access goes out, and nothing that arrives after it is written. While no right changes, each question reads
/// one number.
struct Standing: Sendable {
    let gate: any AccessGate
    let access: ZoneAccess
    let token: String?

    /// Returns a request that fails after the last byte of its body if the sender's access has ended.
    func confirming(bodyOf request: Request) -> Request {
        guard request.method != .get, request.method != .head else { return request }
        var request = request
        request.body = RequestBody(asyncSequence: ConfirmedBody(body: request.body, standing: self))
        return request
    }

    /// Runs a route, and returns its answer if the sender's access has not ended meanwhile.
    ///
    /// An answer without content tells nothing, and may be about the end of the access itself.
    func confirming(_ answer: () async throws -> Response) async throws -> Response {
        let response: Response
        do { response = try await answer() } catch {
            // A refused write tells the record as it is now.
            try await confirm()
            throw error
        }
        if response.status != .noContent, response.status != .notModified { try await confirm() }
        return response
    }

    /// - Throws: The refusal if the sender's access has ended since the decision.
    fileprivate func confirm() async throws {
        if planted(PlantedBug.forgetsCaller) || planted(PlantedBug.snapshotOfAnybody) { return }
        try await gate.confirm(access, token: token)
    }
}

/// A body after whose last byte the gate is asked again.
private struct ConfirmedBody: AsyncSequence, Sendable {
    let body: RequestBody
    let standing: Standing

    struct AsyncIterator: AsyncIteratorProtocol {
        var pieces: RequestBody.AsyncIterator
        let standing: Standing

        mutating func next() async throws -> ByteBuffer? { try await next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async throws(any Error) -> ByteBuffer? {
            if let piece = try await pieces.next(isolation: actor) { return piece }
            try await standing.confirm()
            return nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(pieces: body.makeAsyncIterator(), standing: standing)
    }
}
