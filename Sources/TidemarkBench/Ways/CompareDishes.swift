import TidemarkCore

/// The fifth way: the client says by a fingerprint what it has, and gets the difference.
struct CompareDishes {
    private let file: DishFile
    private let requests: DishRequests
    private let filter: String

    init(_ file: DishFile, _ requests: DishRequests, filter: String) {
        self.file = file
        self.requests = requests
        self.filter = JSONText.quote(filter)
    }

    /// The number of parts of a range that differs.
    private static let ways = 32
    /// The most dishes of a range whose keys the client sends.
    private static let keysMax = 32
    /// The digits of a fingerprint that are enough among few rows.
    private static let digits = 8

    /// Compares until the client has the server's dishes.
    func run() async throws {
        var digits = 4
        while true {
            let entries = try file.entries()
            let sum = Self.sum(entries[...])
            let place = try file["since"].map { #","since":"\#($0)""# } ?? ""
            let body = #"{"filter":\#(filter),"rows":\#(entries.count),"fingerprint":"\#(sum)"\#(place)}"#
            let answer = try await take(body)
            try file.remember("since", answer.next)
            guard answer.more != true else { continue }
            let now = try file.entries()
            let rows = answer.rows ?? 0
            if rows == now.count, answer.fingerprint == Self.sum(now[...]) { return }
            // With so many other rows, as after another filter, nearly every range would differ.
            let areMany = abs(rows - now.count) * 4 > rows
            try await repair(digits: digits, keysMax: areMany ? .max : Self.keysMax)
            // Rows that still differ had the same first digits.
            digits = 32
        }
    }

    private func take(_ body: String) async throws -> DishRequests.Answer {
        let answer = try await requests.post("/compare/dish", body)
        try file.apply(answer.records ?? [], gone: (answer.gone ?? []).compactMap { Int($0) })
        return answer
    }

    private static func sum(_ entries: ArraySlice<DishFile.Entry>) -> Fingerprint {
        entries.reduce(.none) { $0 + $1.number }
    }

    // MARK: Ranges

    /// A range of ids.
    private struct Range {
        let from: Int?
        let to: Int?
        /// Whether it differs for certain, so that its keys are worth their bytes.
        let isKnown: Bool
    }

    /// Divides ranges that differ until they have few keys, and sends these.
    private func repair(digits: Int, keysMax: Int) async throws {
        var ranges = [Range(from: nil, to: nil, isKnown: true)]
        while !ranges.isEmpty {
            let entries = try file.entries()
            let parts = ranges.map { Self.part($0, of: entries) }
            let isSent = zip(ranges, parts).map { $0.isKnown && $1.count <= keysMax }
            let bodies = ranges.indices.map { Self.body(ranges[$0], parts[$0], digits: isSent[$0] ? digits : nil) }
            let answer = try await take(#"{"filter":\#(filter),"ranges":\#(JSONText.array(bodies))}"#)
            ranges = (answer.differing ?? []).flatMap { index -> [Range] in
                let range = ranges[index]
                if isSent[index] { return answer.more == true ? [range] : [] }
                guard parts[index].count <= keysMax else { return Self.split(range, parts[index]) }
                return [Range(from: range.from, to: range.to, isKnown: true)]
            }
        }
    }

    private static func part(_ range: Range, of entries: [DishFile.Entry]) -> ArraySlice<DishFile.Entry> {
        let start = range.from.map { from in entries.partitioningIndex { $0.id >= from } } ?? 0
        let end = range.to.map { to in entries.partitioningIndex { $0.id >= to } } ?? entries.count
        return entries[start..<max(start, end)]
    }

    private static func body(_ range: Range, _ part: ArraySlice<DishFile.Entry>, digits: Int?) -> String {
        var members = [
            ("rows", String(part.count)), ("fingerprint", JSONText.quote(sum(part).hex.prefix(Self.digits))),
        ]
        if let from = range.from { members.append(("from", "\"\(from)\"")) }
        if let to = range.to { members.append(("to", "\"\(to)\"")) }
        if let digits {
            let have = part.map { ("\($0.id)", JSONText.quote($0.number.hex.prefix(digits))) }
            members.append(("have", JSONText.object(have)))
        }
        return JSONText.object(members)
    }

    private static func split(_ range: Range, _ part: ArraySlice<DishFile.Entry>) -> [Range] {
        let size = (part.count + ways - 1) / ways
        let starts = stride(from: part.startIndex + size, to: part.endIndex, by: size).map { Optional(part[$0].id) }
        return zip([range.from] + starts, starts + [range.to]).map { Range(from: $0, to: $1, isKnown: false) }
    }
}

extension [DishFile.Entry] {
    /// The first index whose element fulfils a condition that all later ones fulfil, too.
    fileprivate func partitioningIndex(_ isAfter: (DishFile.Entry) -> Bool) -> Int {
        var low = startIndex
        var high = endIndex
        while low < high {
            let middle = (low + high) / 2
            if isAfter(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
