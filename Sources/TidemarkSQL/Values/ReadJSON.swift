import Foundation
package import GRDB
package import TidemarkCore

/// Reads keys and rows in JSON without a database: what ``CanonicalJSON`` writes, and a server's spelling of it.
extension CanonicalJSON {
    /// Returns the values of a key's columns.
    ///
    /// - Throws: ``InvalidValue``.
    package static func parts(of key: String) throws(InvalidValue) -> [DatabaseValue] {
        guard key.hasPrefix("[") else { return [try Value(json: key).databaseValue] }
        var values: [DatabaseValue] = []
        for element in elements(of: key) { values.append(try Value(json: element).databaseValue) }
        return values
    }

    /// Returns the values of a key's columns, by name.
    ///
    /// - Throws: ``InvalidValue``, also if the key has another number of columns.
    package static func columns(_ names: [String], of key: String) throws(InvalidValue) -> [String: DatabaseValue] {
        let values = try parts(of: key)
        guard values.count == names.count else { throw InvalidValue(reason: "has another number of key columns") }
        return Dictionary(uniqueKeysWithValues: zip(names, values))
    }

    /// Returns the members of an object by the columns that they stand for, each as JSON without white space.
    ///
    /// The text must be an object; the form of a member's value is not checked.
    ///
    /// - Throws: ``InvalidValue``.
    package static func columns(of object: String) throws(InvalidValue) -> [String: String] {
        var columns: [String: String] = [:]
        for element in elements(of: object) {
            guard let end = endOfName(in: element) else { throw InvalidValue(reason: "is no object of columns") }
            let name = try Value(json: String(element[..<end])).text
            columns[WireName.name(of: name)] = String(element[end...].dropFirst())
        }
        return columns
    }

    /// Returns the value of a member.
    ///
    /// - Throws: ``InvalidValue``.
    package static func value(of json: String) throws(InvalidValue) -> DatabaseValue {
        try Value(json: json).databaseValue
    }

    /// Divides an array or an object at its own commas, and leaves white space out.
    private static func elements(of json: String) -> [String] {
        var elements: [[UInt8]] = []
        var element: [UInt8] = []
        var scan = StringScan()
        var depth = 0
        for byte in json.trimmingCharacters(in: .whitespacesAndNewlines).utf8.dropFirst().dropLast() {
            let isInString = scan.isInString
            scan.read(byte)
            if !isInString {
                if [0x20, 0x09, 0x0A, 0x0D].contains(byte) { continue }
                if byte == UInt8(ascii: "[") || byte == UInt8(ascii: "{") { depth += 1 }
                if byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}") { depth -= 1 }
                if byte == UInt8(ascii: ","), depth == 0 {
                    elements.append(element)
                    element = []
                    continue
                }
            }
            element.append(byte)
        }
        if !element.isEmpty { elements.append(element) }
        return elements.map { String(decoding: $0, as: UTF8.self) }
    }

    private static func endOfName(in member: String) -> String.Index? {
        var scan = StringScan()
        for index in member.utf8.indices {
            let wasInString = scan.isInString
            scan.read(member.utf8[index])
            if wasInString, !scan.isInString { return member.utf8.index(after: index) }
        }
        return nil
    }

    /// Whether a reader of JSON is inside of a string.
    private struct StringScan {
        private(set) var isInString = false
        private var isEscaped = false

        mutating func read(_ byte: UInt8) {
            if byte == UInt8(ascii: "\""), !isEscaped { isInString.toggle() }
            isEscaped = isInString && byte == UInt8(ascii: "\\") && !isEscaped
        }
    }
}

extension Value {
    /// The text of a string; empty for another value.
    fileprivate var text: String { String.fromDatabaseValue(databaseValue) ?? "" }
}
