import GRDB
import GRDBSQLite

/// `tidemark_pick(object, places)`: an object of only some members of a canonical JSON object.
///
/// `places` is a JSON array of the members' numbers, from 0. The members keep their text, because SQLite's own JSON
/// functions would spell real numbers in another way. Without members the result is NULL, and so is a result above
/// ``bytesMax``.
enum PickMembers {
    /// The most bytes of a result: 1 MiB.
    static let bytesMax = 1 << 20

    /// Adds the function to a connection.
    static func register(on db: Database) throws {
        try SQLFunctions.add("tidemark_pick", count: 2, to: db) { context, _, values in
            guard let object = sqlite3_value_text(values?[0]), let places = sqlite3_value_text(values?[1]) else {
                return sqlite3_result_null(context)
            }
            let members = PickMembers.members(of: CanonicalJSON.bytes(object, of: values?[0]))
            let picked = String(cString: places).dropFirst().dropLast().split(separator: ",").compactMap { place in
                Int(place).flatMap { members.indices.contains($0) ? members[$0] : nil }
            }
            let length = picked.reduce(1) { $0 + $1.count + 1 }
            guard !picked.isEmpty, length <= PickMembers.bytesMax else { return sqlite3_result_null(context) }
            let text = Array(picked.joined(separator: [UInt8(ascii: ",")]))
            SQLFunctions.result(context, [UInt8(ascii: "{")] + text + [UInt8(ascii: "}")])
        }
    }

    /// Splits a canonical JSON object into its members, each with its name.
    static func members<Bytes: RandomAccessCollection<UInt8>>(of object: Bytes) -> [Bytes.SubSequence] {
        var members: [Bytes.SubSequence] = []
        var depth = 0
        var isText = false
        var isEscaped = false
        var start = object.startIndex
        for place in object.indices {
            let byte = object[place]
            if isEscaped {
                isEscaped = false
            } else if isText {
                isEscaped = byte == UInt8(ascii: "\\")
                isText = byte != UInt8(ascii: "\"")
            } else {
                switch byte {
                case UInt8(ascii: "\""): isText = true
                case UInt8(ascii: "{"), UInt8(ascii: "["):
                    depth += 1
                    if depth == 1 { start = object.index(after: place) }
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    depth -= 1
                    if depth == 0, start < place { members.append(object[start..<place]) }
                case UInt8(ascii: ",") where depth == 1:
                    members.append(object[start..<place])
                    start = object.index(after: place)
                default: continue
                }
            }
        }
        return members
    }
}
