import Foundation
import TidemarkCore

/// Answers `POST /compare/{table}`: how the rows that a client keeps differ from the zone's.
///
/// The client names its part of the table by a filter, and its rows by their number and fingerprint. The server keeps
/// nothing about the client. So the answer is right whatever happened to the rows, and for every filter.
///
/// - A request about the whole part brings what changed since a place in the log, and the fingerprint that the rows
///   have then.
/// - A request about ranges of keys names those that differ, and brings the rows of those whose keys the client sends.
package struct ComparePart {
    private let reader: any ZoneReader
    private let request: PartRequest
    private let table: SyncedTable
    private let items: [ListQuery.Item]
    private let filter: RowFilter?

    /// Reads a body about a table.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownTable``, ``TidemarkCore/ErrorCode/malformedRequest``,
    ///   ``TidemarkCore/ErrorCode/invalidFilter``, ``TidemarkCore/ErrorCode/unknownColumn`` or
    ///   ``TidemarkCore/ErrorCode/tooLarge``.
    package init(_ body: [UInt8], of name: String, _ reader: any ZoneReader) throws {
        self.reader = reader
        table = try reader.schema.table(name)
        request = try PartRequest.read(body)
        items = try QueryItems.read(request.filter ?? "")
        if let item = items.first(where: { ListQuery.shaping.contains($0.name) }) {
            throw TidemarkError(
                .invalidFilter, "The filter of a comparison has a parameter \(item.name).",
                fix: "Send conditions only: a comparison is about whole rows.", place: .init(table: name))
        }
        filter = try ListQuery(items, of: table).filter
    }

    package func json() throws -> String {
        let start = [
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
        ]
        return JSONText.object(start + (try request.ranges.map(compare) ?? compareAll()))
    }

    private typealias Members = [(name: String, value: String)]

    private func compareAll() throws -> Members {
        let query = FingerprintQuery(table, where: filter, in: [KeyRange(table: table.name)])
        let sum = try reader.fingerprints(query).first
        let rows = sum?.rows ?? 0
        let fingerprint = sum?.fingerprint ?? .none
        let isEqual = rows == request.rows && fingerprint == request.fingerprint
        return try changes() + [
            ("rows", String(rows)), ("fingerprint", JSONText.quote(fingerprint.hex)),
            ("equal", isEqual ? "true" : "false"),
        ]
    }

    /// What changed since the client's place, as a feed of this part has it.
    ///
    /// A place that the log does not reach is no error here: then the ranges find what changed.
    private func changes() throws -> Members {
        let own = [ListQuery.Item(name: "tables", value: table.name), ListQuery.Item(name: "limit", value: "1000")]
        let feed = ReadChanges(try FeedQuery(own + items, schema: reader.schema), reader)
        return try feed.difference(after: try start())
    }

    private func start() throws -> LogPosition {
        do { return try reader.feedPosition(since: request.since) } catch let error as TidemarkError
            where [.snapshotRequired, .epochMismatch, .revisionAhead].contains(error.code)
        { return LogPosition(revision: reader.state.revision) }
    }

    private func compare(_ ranges: [PartRequest.Range]) throws -> Members {
        let keyRanges = try ranges.map { range in
            KeyRange(table: table.name, from: try bound(range.from), to: try bound(range.to))
        }
        guard KeyRange.misplaced(in: keyRanges) == nil else {
            throw PartRequest.malformed("Ranges overlap, are out of order, or end before they begin.")
        }
        let query = FingerprintQuery(table, where: filter, in: keyRanges)
        let sums = Dictionary(try reader.fingerprints(query).map { ($0.range, $0) }) { $1 }
        let differing = ranges.indices.filter { index in
            let sum = sums[index] ?? RowSum(range: index, rows: 0, fingerprint: .none)
            return sum.rows != ranges[index].rows || !sum.fingerprint.hex.hasPrefix(ranges[index].fingerprint)
        }
        let start = ("differing", JSONText.array(differing.map(String.init)))
        return [start] + (try rows(differing.filter { ranges[$0].have != nil }, of: ranges, in: keyRanges))
    }

    private func bound(_ key: String?) throws -> KeyRange.Bound? {
        guard let key else { return nil }
        let json = try RecordPath.key(key, of: table) { $0.removingPercentEncoding }
        return table.keyKind == .integer ? Int64(json).map(KeyRange.Bound.integer) : .json(json)
    }

    /// The rows of ranges that the client does not have, and its keys that are none of the server's.
    ///
    /// An answer that is full says `more`: the client stores the rows, and sends its ranges again.
    private func rows(_ indexes: [Int], of ranges: [PartRequest.Range], in keyRanges: [KeyRange]) throws -> Members {
        guard !indexes.isEmpty else { return [] }
        let wantedRanges = indexes.map { keyRanges[$0] }
        let query = FingerprintQuery(table, where: filter, in: wantedRanges, rowsMax: PartRequest.keysMax + 1)
        let here = try reader.fingerprints(query)
        guard here.count <= PartRequest.keysMax else {
            throw TidemarkError(
                .tooLarge, "The server has more than \(PartRequest.keysMax) rows in the ranges with `have`.",
                fix: "Divide the ranges, or send fewer of them at a time.", place: .init(table: table.name))
        }
        var gone = indexes.flatMap { ranges[$0].have.map { Array($0.keys) } ?? [] }
        let keys = here.compactMap(\.key).map { RecordPath.text(canonical: $0, of: table) }
        let present = Set(keys)
        gone.removeAll { present.contains($0) }
        let wanted = zip(here, keys).filter { row, key in
            ranges[indexes[row.range]].have?[key].map { !row.fingerprint.hex.hasPrefix($0) } ?? true
        }.compactMap { row, _ in row.key }
        let page = try read(wanted)
        let text = RecordText(table.columns)
        let records = page.rows.map { text.object($0, key: RecordPath.text($0.position.key)) }
        return [
            ("more", page.rows.count < wanted.count ? "true" : "false"), ("records", JSONText.array(records)),
            ("gone", JSONText.array(gone.sorted().map { JSONText.quote($0) })),
        ]
    }

    /// The most rows of an answer, which usually has fewer by its bytes.
    private static let rowsMax = 10_000

    private func read(_ keys: [String]) throws -> RowPage {
        guard !keys.isEmpty else { return RowPage(rows: [], hasMore: false) }
        var query = RowQuery(table, limit: Self.rowsMax, bytesMax: ZoneReaderLimits.bytesMax)
        query.keys = Array(keys.prefix(Self.rowsMax))
        return try reader.rows(query)
    }
}
