import GRDB
import TidemarkCore
import TidemarkSQL

/// Estimates the number of rows by their ids, which have gaps: of deleted rows, and up to ids that devices are lent.
///
/// It halves the range of ids until the first ids of each part tell how dense the rest of it is, within a bound.
struct IDDensity {
    private let db: Database
    private let table: String
    private let id: String

    /// The most parts that are looked at.
    private static let looksMax = 200
    /// The ids of a part that are read.
    private static let sample = 64
    /// A part is divided if the ids that were read cover less of it, from the first one on, than this.
    private static let coverMin = 1.0 / 16

    init(_ db: Database, table: SyncedTable) {
        self.db = db
        self.table = SQLText.name(table.name)
        id = SQLText.name(table.key[0])
    }

    func rows() throws -> Int {
        let ends = try Row.fetchOne(db, sql: "SELECT min(\(id)) AS low, max(\(id)) AS high FROM main.\(table)")
        guard let low = try ends?.value("low") as Int64?, let high = try ends?.value("high") as Int64? else { return 0 }
        let statement = try db.cachedStatement(
            sql: """
                SELECT count(*) AS number, min(id) AS first, max(id) AS last
                FROM (SELECT \(id) AS id FROM main.\(table) WHERE \(id) BETWEEN ? AND ? ORDER BY \(id) LIMIT \(Self.sample))
                """)
        var total = 0.0
        var parts = [low...high]
        var looks = 0
        while looks < parts.count {
            let part = parts[looks]
            looks += 1
            guard let row = try Row.fetchOne(statement, arguments: [part.lowerBound, part.upperBound]) else { continue }
            let number = Double(try row.value("number") as Int)
            guard Int(number) == Self.sample, let first = try row.value("first") as Int64?,
                let last = try row.value("last") as Int64?
            else {
                total += number
                continue
            }
            let span = Double(last) - Double(first) + 1
            let rest = Double(part.upperBound) - Double(last)
            if span < (span + rest) * Self.coverMin, parts.count + 2 <= Self.looksMax {
                let middle = part.lowerBound / 2 + part.upperBound / 2
                parts += [part.lowerBound...middle, middle + 1...part.upperBound]
            } else {
                total += number + rest * number / span
            }
        }
        return Int(total)
    }
}
