import Crypto
import Foundation
import StoreTestSupport
import TidemarkCore

/// A client that keeps some rows of a table, as some lines of any language would.
struct KeptRows {
    /// A row, and its number.
    struct Row {
        var values: [String: String]
        let key: String
        let fingerprint: Fingerprint
    }

    /// The exchanges of a comparison.
    struct Effort {
        var requests = 0
        var records = 0
    }

    let table: String
    let keyColumns: [String]
    /// The rows by their key in a path.
    private(set) var rows: [String: Row] = [:]
    /// The canonical JSON of every key that the client has met, for the order of ranges.
    private var keyJSON: [String: String] = [:]
    /// The place up to which the client has read the feed.
    private(set) var since: String?

    init(_ table: String, key: [String]) {
        self.table = table
        keyColumns = key
    }

    var fingerprint: Fingerprint { rows.values.reduce(.none) { $0 + $1.fingerprint } }

    // MARK: The four rules

    /// Stores a record: added if it is not there, updated if it is.
    mutating func store(_ record: [String: Any], at key: String) {
        let columns = record.filter { !$0.key.hasPrefix("$") }.mapValues(Self.json)
        let parts = keyColumns.map { columns[$0] ?? "null" }
        let values = columns.filter { !keyColumns.contains($0.key) }
        let json = parts.count == 1 ? parts[0] : "[\(parts.joined(separator: ","))]"
        rows[key] = Row(values: values, key: json, fingerprint: number(of: values, json))
        keyJSON[key] = json
    }

    /// Removes a record, if it is there.
    mutating func remove(_ key: String) { rows[key] = nil }

    /// Applies a page of the feed.
    mutating func apply(changes: [[String: Any]]) {
        for change in changes {
            guard let key = change["key"] as? String else { continue }
            if let record = change["record"] as? [String: Any] { store(record, at: key) } else { remove(key) }
        }
    }

    /// Changes a value without telling anybody.
    mutating func damage(_ key: String, _ column: String, _ json: String) {
        guard let row = rows[key] else { return }
        let values = row.values.merging([column: json]) { $1 }
        rows[key] = Row(values: values, key: row.key, fingerprint: number(of: values, row.key))
    }

    private func number(of values: [String: String], _ key: String) -> Fingerprint {
        let members = values.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        let text = "\"\(table)\"\t\(key)\t\(JSONText.object(members.map { ($0.key, $0.value) }))"
        let digest = SHA256.hash(data: Data(text.utf8)).prefix(16).map { String(format: "%02x", $0) }.joined()
        return Fingerprint(hex: digest) ?? .none
    }

    private static func json(_ value: Any) -> String {
        switch value {
        case let text as String: JSONText.quote(text)
        case is NSNull: "null"
        default: "\(value)"
        }
    }

    // MARK: Comparing

    /// Makes the rows those of the zone that a filter selects.
    mutating func compare(_ filter: String, with server: ServedZone) async throws -> Effort {
        var effort = Effort()
        while effort.requests < 100 {
            let place = since.map { #","since":"\#($0)""# } ?? ""
            let body =
                #"{"filter":\#(JSONText.quote(filter)),"rows":\#(rows.count),"fingerprint":"\#(fingerprint)"\#(place)}"#
            let reply = try await take(body, from: server, &effort)
            since = reply.next
            if reply.isMore { continue }
            if reply.rows == rows.count, reply.fingerprint == fingerprint.hex { break }
            try await repair(filter, with: server, &effort)
        }
        return effort
    }

    /// Divides ranges that differ until they are small, and sends the keys of small ones.
    private mutating func repair(_ filter: String, with server: ServedZone, _ effort: inout Effort) async throws {
        var ranges = [Range(from: nil, to: nil, isKnown: true)]
        while !ranges.isEmpty {
            let bodies = ranges.map(body)
            let body = #"{"filter":\#(JSONText.quote(filter)),"ranges":[\#(bodies.joined(separator: ","))]}"#
            let large = ranges.map { keys($0).count > Self.smallMax }
            let reply = try await take(body, from: server, &effort)
            ranges = reply.differing.flatMap { index -> [Range] in
                if large[index] { return split(ranges[index]) }
                let isDone = ranges[index].isKnown && !reply.isMore
                return isDone ? [] : [Range(from: ranges[index].from, to: ranges[index].to, isKnown: true)]
            }
        }
    }

    /// A range of keys.
    private struct Range {
        let from: String?
        let to: String?
        /// Whether it differs for certain, so that its keys are worth their bytes.
        let isKnown: Bool
    }

    private static let smallMax = 32

    private mutating func take(_ body: String, from server: ServedZone, _ effort: inout Effort) async throws
        -> ServedZone.Reply
    {
        let reply = try await server.post("/compare/\(table)", body)
        guard reply.status == 200 else { throw Refused(code: reply.code ?? reply.text) }
        for record in reply.records { store(record, at: record["$key"] as? String ?? "") }
        for key in reply.gone { remove(key) }
        effort.requests += 1
        effort.records += reply.records.count
        return reply
    }

    /// The request was refused.
    struct Refused: Error { let code: String }

    private func body(_ range: Range) -> String {
        let keys = keys(range)
        let sum = keys.reduce(Fingerprint.none) { $0 + (rows[$1]?.fingerprint ?? .none) }
        var members = [("rows", String(keys.count)), ("fingerprint", JSONText.quote(sum.hex.prefix(8)))]
        if let from = range.from { members.append(("from", JSONText.quote(from))) }
        if let to = range.to { members.append(("to", JSONText.quote(to))) }
        if range.isKnown, keys.count <= Self.smallMax {
            let have = keys.map { ($0, JSONText.quote((rows[$0]?.fingerprint.hex ?? "").prefix(8))) }
            members.append(("have", JSONText.object(have)))
        }
        return JSONText.object(members)
    }

    private func split(_ range: Range) -> [Range] {
        let keys = keys(range)
        let size = (keys.count + 31) / 32
        let starts = stride(from: size, to: keys.count, by: size).map { Optional(keys[$0]) }
        return zip([range.from] + starts, starts + [range.to]).map { Range(from: $0, to: $1, isKnown: false) }
    }

    private func keys(_ range: Range) -> [String] {
        rows.keys.filter { key in
            (range.from.map { !precedes(key, $0) } ?? true) && (range.to.map { precedes(key, $0) } ?? true)
        }.sorted(by: precedes)
    }

    /// The protocol's order of keys: integers by value, others by the bytes of their canonical JSON.
    private func precedes(_ left: String, _ right: String) -> Bool {
        if let left = Int64(left), let right = Int64(right) { return left < right }
        return (keyJSON[left] ?? "").utf8.lexicographicallyPrecedes((keyJSON[right] ?? "").utf8)
    }
}
