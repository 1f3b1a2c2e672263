/// The byte range of a file in an answer: `bytes FIRST-LAST/TOTAL`.
struct ContentRange: Hashable {
    let first: Int64
    let last: Int64
    let total: Int64

    init(from first: Int64, of total: Int64) {
        self.first = first
        last = total - 1
        self.total = total
    }

    /// Parses a header; nil if it has another form or an impossible range.
    init?(_ header: String) {
        let parts = header.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].lowercased() == "bytes" else { return nil }
        let numbers = parts[1].split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "/" }.map(Self.number)
        guard numbers.count == 3, let first = numbers[0], let last = numbers[1], let total = numbers[2], first <= last,
            last < total, header.hasSuffix("-\(last)/\(total)")
        else { return nil }
        self.first = first
        self.last = last
        self.total = total
    }

    private static func number(_ digits: Substring) -> Int64? {
        digits.utf8.allSatisfy { (48...57).contains($0) } ? Int64(digits) : nil
    }
}
