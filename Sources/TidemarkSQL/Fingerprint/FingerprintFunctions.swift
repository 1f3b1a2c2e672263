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
        let members = members(of: json).sorted { $0.name.lexicographicallyPrecedes($1.name) }
        var output = [UInt8(ascii: "{")]
        for (index, member) in members.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output += member.all
        }
        output.append(UInt8(ascii: "}"))
        SQLFunctions.result(context, output)
    }

    /// Returns the members of a JSON object without white space: the bytes in the name's quotes, and of the member.
    private static func members(of json: UnsafeBufferPointer<UInt8>) -> [(
        name: Slice<UnsafeBufferPointer<UInt8>>, all: Slice<UnsafeBufferPointer<UInt8>>
    )] {
        var members: [(Slice<UnsafeBufferPointer<UInt8>>, Slice<UnsafeBufferPointer<UInt8>>)] = []
        var depth = 0
        var isInString = false
        var isEscaped = false
        var start = 1
        var nameEnd = 0
        for (index, byte) in json.enumerated() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                    if nameEnd == 0, depth == 1 { nameEnd = index }
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
            if nameEnd > 0, depth == 0 || depth == 1 && byte == UInt8(ascii: ",") {
                members.append((json[(start + 1)..<nameEnd], json[start..<index]))
                start = index + 1
                nameEnd = 0
            }
        }
        return members
    }
}
