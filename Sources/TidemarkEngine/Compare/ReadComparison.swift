import Foundation
import TidemarkCore

/// Reads a request to compare rows, as strictly as a sync request.
extension ComparisonHandler {
    /// Reads a body.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is not JSON, has members that the protocol
    ///   does not define, or has more ranges than the limit.
    func read(_ body: [UInt8]) throws -> ComparisonRequest {
        let request: ComparisonRequest
        do { request = try JSONDecoder().decode(ComparisonRequest.self, from: Data(body)) } catch {
            throw Self.malformed(error as? DecodingError)
        }
        guard request.ranges.count <= limits.rangesPerRequestMax else {
            throw TidemarkError(
                .tooLarge,
                "The request has \(request.ranges.count) ranges.",
                fix: "Send at most \(limits.rangesPerRequestMax) at a time."
            )
        }
        try Self.refuseNames(of: body)
        guard request.revision >= 0 else { throw Self.malformed("revision is no integer from 0 on.") }
        for (index, range) in request.ranges.enumerated() where range.rows < 0 {
            throw Self.malformed("ranges[\(index)].rows is no integer from 0 on.")
        }
        return request
    }

    /// Refuses unknown and duplicate names, which the decoder ignores.
    ///
    /// The decoder has accepted the body, so its only objects are the request and its ranges.
    private static func refuseNames(of body: [UInt8]) throws {
        try MemberNames.check(body) { name, depth in
            guard (depth > 1 ? WireName.rangeMembers : WireName.comparisonMembers).contains(name) else {
                throw malformed("\(depth > 1 ? "A range" : "The request") has a member \(name).")
            }
        }
    }

    // MARK: Errors

    /// Names the member that could not be read, if the decoder reports one.
    private static func malformed(_ error: DecodingError?) -> TidemarkError {
        malformed(MemberNames.problem(error) ?? "The body is no request to compare rows.")
    }

    private static func malformed(_ message: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest,
            message,
            fix: "See PROTOCOL.md; the shortest is {\"revision\":0,\"ranges\":[]}."
        )
    }
}
