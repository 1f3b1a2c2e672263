import Foundation
import GRDB
import GRDBSQLite
import TidemarkCore

/// The SQL functions that hash rows and add up fingerprints inside a statement.
///
/// | function | result |
/// | --- | --- |
/// | `tidemark_fingerprint(table, key, before, after)` | aggregate: sum of hashes, `after` minus `before` |
/// | `tidemark_sorted(json)` | a row's JSON object in its hashed form, with members sorted by name |
/// | `tidemark_hash(text)` | the first 16 bytes of SHA-256, as hexadecimal digits; of NULL, NULL |
///
/// The aggregate returns 32 hexadecimal digits; a row that is NULL does not count.
enum FingerprintFunctions {
    static func register(on db: Database) throws {
        try SQLFunctions.add(
            "tidemark_fingerprint", count: 4, to: db,
            step: { context, _, values in FingerprintFunctions.step(context, values) },
            finish: { context in FingerprintFunctions.finish(context) })
        try SQLFunctions.add("tidemark_sorted", count: 1, to: db) { context, _, values in
            FingerprintFunctions.sortMembers(context, values)
        }
        try SQLFunctions.add("tidemark_hash", count: 1, to: db) { context, _, values in
            FingerprintFunctions.hashText(context, values)
        }
    }

    private typealias Values = UnsafeMutablePointer<OpaquePointer?>

    private static func step(_ context: OpaquePointer?, _ values: Values?) {
        // SQLite zeroes the memory at first, which is the fingerprint of no rows.
        guard
            let sum = sqlite3_aggregate_context(context, Int32(MemoryLayout<Fingerprint>.size))?.assumingMemoryBound(
                to: Fingerprint.self)
        else { return sqlite3_result_error_nomem(context) }
        var buffer: [UInt8] = []
        if let hash = hash(values, row: 2, &buffer) { sum.pointee = sum.pointee - hash }
        if let hash = hash(values, row: 3, &buffer) { sum.pointee += hash }
    }

    private static func finish(_ context: OpaquePointer?) {
        let sum = sqlite3_aggregate_context(context, 0)?.assumingMemoryBound(to: Fingerprint.self)
        SQLFunctions.result(context, Array((sum?.pointee ?? .none).hex.utf8))
    }

    /// Hashes the argument `row`: the first 16 bytes of SHA-256 of table, TAB, key, TAB, row; nil if there is no row.
    private static func hash(_ values: Values?, row: Int, _ text: inout [UInt8]) -> Fingerprint? {
        guard sqlite3_value_type(values?[row]) != SQLITE_NULL else { return nil }
        text.removeAll(keepingCapacity: true)
        CanonicalJSON.append(values?[0], to: &text)
        text.append(UInt8(ascii: "\t"))
        text += CanonicalJSON.bytes(sqlite3_value_text(values?[1]), of: values?[1])
        text.append(UInt8(ascii: "\t"))
        text += CanonicalJSON.bytes(sqlite3_value_text(values?[row]), of: values?[row])
        return Fingerprint(hashOf: text)
    }

    private static func hashText(_ context: OpaquePointer?, _ values: Values?) {
        guard let address = sqlite3_value_text(values?[0]) else { return sqlite3_result_null(context) }
        let text = CanonicalJSON.bytes(address, of: values?[0])
        SQLFunctions.result(context, Array(Fingerprint(hashOf: Array(text)).hex.utf8))
    }

    private static func sortMembers(_ context: OpaquePointer?, _ values: Values?) {
        guard let address = sqlite3_value_text(values?[0]) else { return sqlite3_result_null(context) }
        let json = CanonicalJSON.bytes(address, of: values?[0])
        var members: [(name: Range<Int>, all: Range<Int>)] = []
        do throws(TidemarkError) {
            var reader = try JSONReader(json)
            try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                let value = try reader.skip(unchecked: true)
                members.append((name.range, (name.range.lowerBound - 1)..<value.upperBound))
            }
            // Such a text is none of the device's, and no row has its hash.
        } catch { return SQLFunctions.result(context, Array(json)) }
        members.sort { json[$0.name].lexicographicallyPrecedes(json[$1.name]) }
        var output = [UInt8(ascii: "{")]
        for (index, member) in members.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output += json[member.all]
        }
        output.append(UInt8(ascii: "}"))
        SQLFunctions.result(context, output)
    }
}
