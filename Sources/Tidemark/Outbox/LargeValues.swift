import GRDB
import TidemarkCore
import TidemarkSQLite

/// A value that is too large is refused before it is sent: its change set is parked, and those
/// that have nothing to do with it go on.
extension FreezeChangeSets {
    /// A character has at most so many bytes.
    private static let characterBytesMax = 4

    /// Refuses a change set with a value that is larger than the limit; its longest attributes
    /// have `longest` characters.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `tooLarge`, which names the change set, the
    ///   record and the column.
    func refuseLargeValues(of seq: Int64, among sets: ArraySlice<Waiting>, longest: Int) throws {
        let bound = ValueBound(limits)
        let charactersMax = bound.bytesMax / Self.characterBytesMax
        guard longest > charactersMax else { return }
        let statement = try db.cachedStatement(
            sql: """
                SELECT tbl, key, attributes FROM tidemark_outbox
                WHERE seq = ? AND length(attributes) > ?
                """
        )
        let rows = try Row.fetchCursor(statement, arguments: [seq, charactersMax])
        while try rows.next() != nil {
            let texts = RowTexts(statement)
            let table = String(decoding: texts[0], as: UTF8.self)
            let unserved = schema.difference.unservedColumns[table, default: []].map(\.name)
            guard let excess = bound.excess(in: texts[2], unsent: Set(unserved)) else { continue }
            let place = TidemarkError.Place(
                id: sets.first { $0.seq == seq }?.id,
                table: table,
                key: String(decoding: texts[1], as: UTF8.self)
            )
            throw bound.refusal(excess, at: place)
        }
    }
}
