/// Converts the JSON of a key, an array if it is composite, to canonical form.
package func canonicalKey(json: UnsafeBufferPointer<UInt8>) throws(InvalidValue) -> [UInt8] {
    let cells: (isArray: Bool, cells: [Cell], reader: JSONReader)
    do throws(TidemarkError) {
        var reader = try JSONReader(json)
        var list: [Cell] = []
        let isArray = try reader.kind() == .array
        if isArray {
            try reader.array { (reader) throws(TidemarkError) in list.append(try reader.cell()) }
        } else {
            list.append(try reader.cell())
        }
        try reader.finish()
        cells = (isArray, list, reader)
    } catch { throw InvalidValue(reason: "is not a JSON value, or an array of values") }
    guard cells.isArray else { return try cells.reader.value(of: cells.cells[0]).canonicalJSON }
    var output: [UInt8] = [UInt8(ascii: "[")]
    for (index, cell) in cells.cells.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        output += try cells.reader.value(of: cell).canonicalJSON
    }
    output.append(UInt8(ascii: "]"))
    return output
}

package func isCanonicalKey(json: String) -> Bool {
    do throws(InvalidValue) {
        return try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(InvalidValue) in
            try canonicalKey(json: bytes).elementsEqual(bytes)
        }
    } catch { return false }
}
