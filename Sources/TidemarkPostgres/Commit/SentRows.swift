import TidemarkCore
import TidemarkSQL

/// Rows on their way to PostgreSQL: an array of texts for each column, which the statement casts to the column's type.
///
/// The derived table has the columns `n`, the number of the row; `k0`, `k1` and so on, the key; and `c` with the
/// place of each column that a row sets. Where only some rows set a column, `h` with its place tells which. `d` with
/// its place has the number that a row adds to a column.
struct SentRows {
    let table: PostgresTable
    private(set) var count = 0
    private var keys: [[String?]]
    private var values: [Int: [String?]] = [:]
    private var has: [Int: [Bool]] = [:]
    private var deltas: [Int: [String?]] = [:]

    init(_ table: PostgresTable) {
        self.table = table
        keys = table.table.key.map { _ in [] }
    }

    /// The places of the columns that rows set or add to, in the table's order.
    var columns: [Int] { Set(values.keys).union(deltas.keys).sorted() }
    var setColumns: [Int] { values.keys.sorted() }

    /// Begins the next row; throws `invalidValue` for a key that the columns cannot hold.
    mutating func begin(key: String) throws {
        for (index, text) in try Self.convertedKey(key, of: table).enumerated() { keys[index].append(text) }
        count += 1
    }

    /// Converts the parts of a key; throws `invalidValue` for one that the columns cannot hold.
    static func convertedKey(_ key: String, of table: PostgresTable) throws -> [String?] {
        let parts = Value.parts(ofKey: key)
        return try table.table.key.enumerated().map { index, column in
            switch PostgresText.convert(index < parts.count ? parts[index] : .null, table.kind(column)) {
            case .success(let text): return text
            case .failure(let misfit):
                throw PostgresText.refusal(misfit.reason, .init(table: table.table.name, key: key, column: column))
            }
        }
    }

    mutating func setValue(_ place: Int, _ text: String?) {
        pad(&values[place, default: []], with: nil)
        pad(&has[place, default: []], with: false)
        values[place]?.append(text)
        has[place]?.append(true)
    }

    mutating func add(_ place: Int, _ delta: Int64) {
        pad(&deltas[place, default: []], with: nil)
        deltas[place]?.append(String(delta))
    }

    /// Fills the place of earlier rows, which do not have the column.
    private func pad<Element>(_ array: inout [Element], with filler: Element) {
        while array.count < count - 1 { array.append(filler) }
    }

    /// The derived table, whose arrays are the parameters from `first` on: those of `further` columns, by name and
    /// type, then its own.
    ///
    /// A second derived table would cost a comparison for each pair of rows.
    func derivedTable(_ further: KeyValuePairs<String, String> = [:], first: Int = 2) -> String {
        var names = further.map(\.key) + ["n"] + keys.indices.map { "k\($0)" }
        var types = further.map(\.value) + ["bigint"] + keys.map { _ in "text" }
        for place in setColumns {
            names.append("c\(place)")
            types.append("text")
            if isPartial(place) {
                names.append("h\(place)")
                types.append("boolean")
            }
        }
        for place in deltas.keys.sorted() {
            names.append("d\(place)")
            types.append("numeric")
        }
        let arrays = types.enumerated().map { "$\(first + $0)::\($1)[]" }
        return "unnest(\(arrays.joined(separator: ", "))) AS sent (\(names.joined(separator: ", ")))"
    }

    /// The arrays of the derived table; `number` is that of the first row.
    func parameters(from number: Int = 0) -> [String] {
        var parameters = [PostgresArray.numbers((number..<(number + count)).map(Int64.init))]
        parameters += keys.map(PostgresArray.nullable)
        for place in setColumns {
            parameters.append(PostgresArray.nullable(padded(values[place] ?? [], with: nil)))
            guard isPartial(place) else { continue }
            let flags = padded(has[place] ?? [], with: false).map { $0 ? "t" : "f" }
            parameters.append("{\(flags.joined(separator: ","))}")
        }
        for place in deltas.keys.sorted() {
            parameters.append(PostgresArray.nullable(padded(deltas[place] ?? [], with: nil)))
        }
        return parameters
    }

    private func padded<Element>(_ array: [Element], with filler: Element) -> [Element] {
        array + Array(repeating: filler, count: count - array.count)
    }

    /// Whether only some rows set a column.
    private func isPartial(_ place: Int) -> Bool {
        guard let flags = has[place] else { return true }
        return flags.count < count || flags.contains(false)
    }

    /// A column's value as a row sets it, else another expression; `key` is the index of the column in the key.
    func value(_ place: Int, otherwise: String, key: Int? = nil) -> String {
        if let key { return Self.sentKey(key, of: table) }
        guard values[place] != nil else { return otherwise }
        let value = "sent.c\(place)::\(table.wholeType(table.table.columns[place].name))"
        return isPartial(place) ? "CASE WHEN sent.h\(place) THEN \(value) ELSE \(otherwise) END" : value
    }

    /// A column's value after the row adds to it; NULL counts as a number so large that PostgreSQL refuses the sum.
    func sum(_ place: Int, _ row: String) -> String {
        let column = table.table.columns[place].name
        let current = table.column(column, row)
        guard deltas[place] != nil else { return current }
        let sum = "(coalesce(\(current)::numeric, 1e20) + sent.d\(place))::\(table.wholeType(column))"
        return "CASE WHEN sent.d\(place) IS NOT NULL THEN \(sum) ELSE \(current) END"
    }

    /// The value of a key column, which may be a temporary id, too large for a column of 32 bits.
    static func sentKey(_ index: Int, of table: PostgresTable) -> String {
        let column = table.table.key[index]
        let isInteger = table.kind(column) == .integer
        return "sent.k\(index)::\(isInteger ? "bigint" : table.wholeType(column))"
    }

    static func matches(_ table: PostgresTable, _ row: String) -> String {
        let parts = table.table.key.enumerated().map { "\(table.column($1, row)) = \(sentKey($0, of: table))" }
        return ([table.inZone(row)] + parts).joined(separator: " AND ")
    }
}
