package import GRDB
package import TidemarkCore

/// Reads keys and rows in JSON without a database: what ``CanonicalJSON`` writes, and a server's spelling of it.
extension CanonicalJSON {
    package static func parts(of key: String) throws(InvalidValue) -> [DatabaseValue] {
        guard key.hasPrefix("[") else { return [try value(of: key)] }
        var parts: [DatabaseValue] = []
        try reading(key) { (reader) throws(TidemarkError) in
            var cells: [Cell] = []
            try reader.array { (reader) throws(TidemarkError) in cells.append(try reader.cell()) }
            return cells
        } take: { (reader, cells) throws(InvalidValue) in
            for cell in cells { parts.append(try reader.value(of: cell).databaseValue) }
        }
        return parts
    }

    /// Returns the values of a key's columns, by name; throws also if the key has another number of columns.
    package static func columns(_ names: [String], of key: String) throws(InvalidValue) -> [String: DatabaseValue] {
        let values = try parts(of: key)
        guard values.count == names.count else { throw InvalidValue(reason: "has another number of key columns") }
        return Dictionary(uniqueKeysWithValues: zip(names, values))
    }

    package static func value(of json: String) throws(InvalidValue) -> DatabaseValue {
        try Value(json: json).databaseValue
    }

    /// Reads the parts of a text, and hands them to `take` with their reader.
    private static func reading<Part>(
        _ json: String, read: (inout JSONReader) throws(TidemarkError) -> Part,
        take: (JSONReader, Part) throws(InvalidValue) -> Void
    ) throws(InvalidValue) {
        try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(InvalidValue) in
            let found: (JSONReader, Part)
            do throws(TidemarkError) {
                var reader = try JSONReader(bytes)
                let part = try read(&reader)
                try reader.finish()
                found = (reader, part)
            } catch { throw InvalidValue(reason: "is no JSON of a key or a row") }
            try take(found.0, found.1)
        }
    }
}
