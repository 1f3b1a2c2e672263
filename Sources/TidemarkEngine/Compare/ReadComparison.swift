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
        // The names of the current object stand last, after those of the enclosing object.
        var objects: [Set<String>] = []
        var start = 0
        var end = 0
        var isInString = false
        var isEscaped = false
        for (index, byte) in body.enumerated() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    end = index
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""):
                start = index + 1
                isInString = true
            case UInt8(ascii: "{"): objects.append([])
            case UInt8(ascii: "}"): _ = objects.popLast()
            case UInt8(ascii: ":"):
                let isInRange = objects.count > 1
                guard var names = objects.popLast() else { continue }
                try add(String(decoding: body[start..<end], as: UTF8.self), to: &names, isInRange)
                objects.append(names)
            default: break
            }
        }
    }

    private static func add(_ name: String, to names: inout Set<String>, _ isInRange: Bool) throws {
        guard (isInRange ? WireName.rangeMembers : WireName.comparisonMembers).contains(name) else {
            throw malformed("\(isInRange ? "A range" : "The request") has a member \(name).")
        }
        guard names.insert(name).inserted else {
            throw TidemarkError(
                .duplicateName,
                "The name \(name) appears twice in one object.",
                fix: "Give each name once: readers of JSON disagree on which one counts."
            )
        }
    }

    // MARK: Errors

    /// Names the member that could not be read, if the decoder reports one.
    private static func malformed(_ error: DecodingError?) -> TidemarkError {
        switch error {
        case .keyNotFound(let key, let context): malformed("\(path(of: context.codingPath + [key])) is missing.")
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            context.codingPath.isEmpty
                ? malformed("The body is no request to compare rows.")
                : malformed("\(path(of: context.codingPath)) has another form.")
        default: malformed("The body is no request to compare rows.")
        }
    }

    private static func malformed(_ message: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest,
            message,
            fix: "See PROTOCOL.md; the shortest is {\"revision\":0,\"ranges\":[]}."
        )
    }

    /// For instance `ranges[3].from`.
    private static func path(of keys: [any CodingKey]) -> String {
        keys.reduce("") { path, key in
            if let index = key.intValue { return "\(path)[\(index)]" }
            return path.isEmpty ? key.stringValue : "\(path).\(key.stringValue)"
        }
    }
}
