/// Reads the body of `POST /fingerprints`, as strictly as a sync request.
extension ComparisonRequest {
    /// Reads a request; throws if a member is unknown, missing or malformed, or if there are too many ranges.
    package static func read(_ reader: inout JSONReader, limits: Limits) throws(TidemarkError) -> ComparisonRequest {
        var request = ComparisonRequest(epoch: nil, schema: nil, revision: -1, recompute: false, ranges: [])
        var hasRanges = false
        try TypedMembers.read(at: "", &reader, or: malformed) { (reader, name, path) throws(TidemarkError) in
            switch name {
            case "epoch": request.epoch = try reader.member(path, or: malformed) { $0.plainText(of: $1) }
            case "schema": request.schema = try reader.member(path, or: malformed) { $0.plainText(of: $1) }
            case "recompute": request.recompute = try reader.member(path, or: malformed) { $0.truth(of: $1) }
            case "revision": request.revision = try reader.member(path, or: malformed) { $0.integer(of: $1) } ?? -1
            case "ranges":
                hasRanges = true
                request.ranges = try reader.members(path, or: malformed) { (reader, path) throws(TidemarkError) in
                    try range(path, &reader)
                }
            default: throw malformed("The request has a member \(name).")
            }
        }
        try reader.finish()
        guard request.revision >= 0 else { throw malformed("revision is no integer from 0 on.") }
        guard hasRanges else { throw malformed("ranges is missing.") }
        guard request.ranges.count <= limits.rangesPerRequestMax else {
            throw TidemarkError(
                .tooLarge, "The request has \(request.ranges.count) ranges.",
                fix: "Send at most \(limits.rangesPerRequestMax) at a time.")
        }
        return request
    }

    private static func range(_ path: String, _ reader: inout JSONReader) throws(TidemarkError) -> KeyRange {
        var table: String?
        var from: KeyRange.Bound?
        var to: KeyRange.Bound?
        var rows: Int64?
        var fingerprint: Fingerprint?
        var send: Bool?
        try TypedMembers.read(at: path, &reader, or: malformed) { (reader, name, path) throws(TidemarkError) in
            switch name {
            case "table": table = try reader.member(path, or: malformed) { $0.plainText(of: $1) }
            case "from": from = try reader.member(path, or: malformed) { $0.bound(of: $1) }
            case "to": to = try reader.member(path, or: malformed) { $0.bound(of: $1) }
            case "rows": rows = try reader.member(path, or: malformed) { $0.integer(of: $1) }
            case "fingerprint": fingerprint = try reader.member(path, or: malformed) { $0.fingerprint(of: $1) }
            case "send": send = try reader.member(path, or: malformed) { $0.truth(of: $1) }
            default: throw malformed("A range has a member \(name).")
            }
        }
        guard let table else { throw malformed("\(path).table is missing.") }
        guard let fingerprint else { throw malformed("\(path).fingerprint is missing.") }
        guard let rows, rows >= 0, let count = Int(exactly: rows) else {
            throw malformed("\(path).rows is no integer from 0 on.")
        }
        return KeyRange(table: table, from: from, to: to, rows: count, fingerprint: fingerprint, send: send)
    }

    private static func malformed(_ message: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest, message, fix: "See PROTOCOL.md; the shortest is {\"revision\":0,\"ranges\":[]}.")
    }
}

extension JSONReader {
    /// Returns an integer key, or the canonical JSON of another one in a string; nil for another value.
    fileprivate func bound(of cell: Cell) -> KeyRange.Bound? {
        switch cell.kind {
        case .integer: integer(in: cell.range).map(KeyRange.Bound.integer)
        case .text, .escapedText:
            .json(text(of: Text(range: cell.range, hasEscapes: cell.kind == .escapedText)))
        default: nil
        }
    }
}
