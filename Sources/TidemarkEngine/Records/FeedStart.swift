import Foundation
import TidemarkCore

/// The place at which a feed begins: a revision, a time, a cursor, or now.
extension ZoneReader {
    /// Returns the place that a text names; nil means now.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/snapshotRequired`` before the log's horizon,
    ///   ``TidemarkCore/ErrorCode/epochMismatch`` in another history,
    ///   ``TidemarkCore/ErrorCode/revisionAhead`` after the zone's revision, and
    ///   ``TidemarkCore/ErrorCode/invalidCursor`` for another text.
    package func feedPosition(since text: String?) throws -> LogPosition {
        guard let text else { return LogPosition(revision: state.revision) }
        let position = try read(text)
        guard position.revision <= state.revision else {
            throw TidemarkError(
                .revisionAhead, "The zone has not reached the revision in `since`.",
                fix: "Go on from a revision that this server has named.")
        }
        guard position >= LogPosition(revision: state.horizon) else {
            throw TidemarkError(
                .snapshotRequired, "The log begins at revision \(state.horizon), after `since`.",
                fix: "List the tables again, and go on from the revision of the first page.")
        }
        return position
    }

    private func read(_ text: String) throws -> LogPosition {
        if let revision = Int64(text), revision >= 0 { return LogPosition(revision: revision) }
        if let milliseconds = Self.milliseconds(text) {
            return LogPosition(revision: try log.lastRevision(before: milliseconds))
        }
        guard let cursor = FeedCursor(text) else {
            throw TidemarkError(
                .invalidCursor, "`since` is neither a revision, nor a time, nor a cursor of the feed.",
                fix: "Write 1041, 2026-11-01T00:00:00Z, or the `next` of the previous page. In a query, + is %2B.")
        }
        guard try has(cursor.tag) else {
            throw TidemarkError(
                .epochMismatch,
                "The zone has another history than the one of this cursor: a backup was restored, or a table made again.",
                fix: "List the tables again, and go on from the revision of the first page.")
        }
        return cursor.position
    }

    /// The time of a text in ISO 8601, in milliseconds since 1970; nil for another text.
    ///
    /// A space before the offset, `00:00:00 01:00`, can only be a `+` that the client did not encode.
    private static func milliseconds(_ text: String) -> Int64? {
        let text = text.replacing(#/(T\S+) (\d\d:?\d\d)$/#) { "\($0.output.1)+\($0.output.2)" }
        for style in [Date.ISO8601FormatStyle(includingFractionalSeconds: true), .iso8601] {
            do {
                let seconds = try style.parse(text).timeIntervalSince1970
                return Int64((seconds * 1_000).rounded())
            } catch { continue }
        }
        return nil
    }
}
