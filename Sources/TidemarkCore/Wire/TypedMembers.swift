/// Objects whose members have fixed names and types, with errors that name a member by its path, such as
/// `ranges[3].from`.
package enum TypedMembers {
    /// The error about a member, in words.
    package typealias Malformed = (String) -> TidemarkError

    /// Reads an object at a path; `member` reads each value, and gets the member's name and path.
    package static func read(
        at path: String, _ reader: inout JSONReader, or malformed: Malformed,
        member: (inout JSONReader, _ name: String, _ path: String) throws(TidemarkError) -> Void
    ) throws(TidemarkError) {
        guard try reader.kind() == .object else {
            throw malformed(path.isEmpty ? "The body is not an object." : "\(path) has another form.")
        }
        try reader.object { (reader, name) throws(TidemarkError) in
            let name = reader.text(of: name)
            try member(&reader, name, path.isEmpty ? name : "\(path).\(name)")
        }
    }
}

extension JSONReader {
    /// Reads the value of a member, nil if it is null; `read` returns nil for a value of another type.
    package mutating func member<Value>(
        _ path: String, or malformed: TypedMembers.Malformed, _ read: (JSONReader, Cell) -> Value?
    ) throws(TidemarkError) -> Value? {
        let cell = try cell()
        if cell.kind == .null { return nil }
        guard let value = read(self, cell) else { throw malformed("\(path) has another form.") }
        return value
    }

    /// Reads an array; `element` reads each value, and gets its path.
    package mutating func members<Value>(
        _ path: String, or malformed: TypedMembers.Malformed,
        element: (inout JSONReader, _ path: String) throws(TidemarkError) -> Value
    ) throws(TidemarkError) -> [Value] {
        guard try kind() == .array else { throw malformed("\(path) has another form.") }
        var values: [Value] = []
        try array { (reader) throws(TidemarkError) in values.append(try element(&reader, "\(path)[\(values.count)]")) }
        return values
    }

    /// Returns `true` or `false`; nil for another value.
    package func truth(of cell: Cell) -> Bool? { cell.kind == .true ? true : cell.kind == .false ? false : nil }
    /// Returns an integer of 64 bits; nil for another value.
    package func integer(of cell: Cell) -> Int64? { cell.kind == .integer ? integer(in: cell.range) : nil }
    /// Returns a fingerprint in hexadecimal digits; nil for another value.
    package func fingerprint(of cell: Cell) -> Fingerprint? { plainText(of: cell).flatMap(Fingerprint.init(hex:)) }
}
