import GRDB
import TidemarkCore
import TidemarkSQL

/// Refuses values and change sets that are too large, before the device sends them.
///
/// The device parks a change set with such a value, and unrelated ones continue. It divides a change set of other
/// programs that is too large by itself.
extension FreezeChangeSets {
    /// The most bytes of one character in UTF-8.
    private static let characterBytesMax = 4

    /// Throws `tooLarge` for a value above the limit; `longest` is the length of the longest attributes, in characters.
    func refuseLargeValues(of seq: Int64, among sets: ArraySlice<Waiting>, longest: Int) throws {
        let bound = ValueBound(limits)
        let charactersMax = bound.bytesMax / Self.characterBytesMax
        guard longest > charactersMax else { return }
        let statement = try db.cachedStatement(
            sql: "SELECT tbl, key, attributes FROM tidemark_outbox WHERE seq = ? AND length(attributes) > ?")
        let rows = try Row.fetchCursor(statement, arguments: [seq, charactersMax])
        while try rows.next() != nil {
            let texts = RowTexts(statement)
            let table = String(decoding: texts[0], as: UTF8.self)
            let unserved = schema.difference.unservedColumns[table, default: []].map(\.name)
            guard let excess = try bound.excess(in: texts[2], unsent: Set(unserved)) else { continue }
            let place = TidemarkError.Place(
                id: sets.first { $0.seq == seq }?.id, table: table, key: String(decoding: texts[1], as: UTF8.self))
            throw bound.refusal(excess, at: place)
        }
    }

    /// Throws `tooLarge` for a change set of other programs; the app's is sent, as the server's limit may be higher.
    func refuseLargeSet(_ seq: Int64, among sets: ArraySlice<Waiting>, size: Int) throws {
        guard size > limits.requestBytesMax, let id = sets.first(where: { $0.seq == seq })?.id,
            try DivideLargeSet.isOutside(id, in: db)
        else { return }
        throw TidemarkError(
            .tooLarge, "A change set is larger than \(limits.requestBytesMax) bytes.", fix: "The device divides it.",
            place: .init(id: id))
    }
}
