import Foundation
package import TidemarkCore

/// A write to one record, as a client without rows sends it.
package struct WriteRequest: Hashable, Sendable {
    package enum Method: String, Hashable, Sendable {
        case post = "POST"
        case patch = "PATCH"
        case put = "PUT"
        case delete = "DELETE"
    }

    package let method: Method
    /// The table's name.
    package let table: String
    /// The key as it stands in the path, percent-encoded; nil in a request to a table.
    package let key: String?
    /// The record, an object without white space between its values; nil in a deletion.
    package let body: String?
    /// The state that the client has seen.
    package let precondition: Precondition

    /// Creates a write.
    package init(method: Method, table: String, key: String?, body: String?, precondition: Precondition) {
        self.method = method
        self.table = table
        self.key = key
        self.body = body
        self.precondition = precondition
    }

    package var operation: TidemarkCore.Operation {
        switch method {
        case .post: .create
        case .put: precondition == .absent ? .create : .update
        case .patch: .update
        case .delete: .delete
        }
    }

    /// Returns a body without the white space between its values.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/malformedRequest`` for a body that is no JSON, nests too deep, is not UTF-8,
    ///   or has control characters.
    package static func json(of body: [UInt8]) throws(TidemarkError) -> [UInt8] {
        do throws(TidemarkError) {
            try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
                var reader = try JSONReader(bytes)
                try reader.skip(unchecked: true)
                try reader.finish()
            }
        } catch { throw TidemarkError(error.code, error.message, fix: fix) }
        return JSONParts.compact(body)
    }

    private static let fix = #"Send JSON in UTF-8, such as {"name": "Anna", "goals": 7}; REST.md has the forms."#
}

/// The state of a record that the author of a write has seen.
package enum Precondition: Hashable, Sendable {
    /// The write says nothing about it.
    case missing
    /// `If-Match: *`: the present state, which the client need not know.
    case present
    /// `If-Match: "355-1b60e08c"`: the tags of states; nothing but tags of this server counts.
    case tags([RecordTag])
    /// `If-None-Match: *`: there is no record.
    case absent

    /// Reads the two headers of a write.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for a header that the method does not have.
    package init(ifMatch: String?, ifNoneMatch: String?, of method: WriteRequest.Method) throws(TidemarkError) {
        switch (ifMatch, ifNoneMatch) {
        case (nil, nil): self = .missing
        case (let ifMatch?, nil) where method != .post: self = Self.matching(ifMatch)
        case (nil, "*") where method == .put: self = .absent
        default:
            throw TidemarkError(
                .invalidArgument, "\(method.rawValue) has another precondition than these headers.",
                fix: "PATCH, PUT and DELETE have If-Match; PUT may have If-None-Match: * instead; POST has neither.")
        }
    }

    /// The latest revision that the client has seen of the record; nil if it says none.
    var revision: Int64? { if case .tags(let tags) = self { tags.map(\.revision).max() } else { nil } }

    private static func matching(_ ifMatch: String) -> Precondition {
        let parts = ifMatch.split(separator: ",").map { $0.drop { $0 == " " }.prefix { $0 != " " } }
        guard parts != ["*"], !planted(PlantedBug.restIgnoresIfMatch) else { return .present }
        // In JSON the quotes are tedious, so an entry of a batch may leave them out.
        return .tags(parts.compactMap { RecordTag(entityTag: $0.hasPrefix("\"") ? String($0) : "\"\($0)\"") })
    }
}

/// A write to one record of the zone's schema: its place in a change set.
struct RecordWrite: Sendable {
    let method: WriteRequest.Method
    let table: SyncedTable
    /// The state that the client has seen.
    let precondition: Precondition
    /// The write as a part of a change set; its key is as the client spells it.
    ///
    /// The revision in `If-Match` is the base by which the server judges the write. Without one, the server judges by
    /// the record as it finds it, and the write stays the same in a retry.
    let change: ClientWrite

    /// Fits a request to its table.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - table: The table that it names.
    ///   - temporaryID: The id of a new record without one.
    ///   - seen: The revision up to which the client has seen the whole zone.
    /// - Throws: ``TidemarkCore/TidemarkError`` for an unknown column, a key or value that does not fit, and a whole
    ///   record without all columns.
    init(_ request: WriteRequest, to table: SyncedTable, temporaryID: Int64, seen: Int64?)
        throws(TidemarkError)
    {
        let columns = try request.body.map { json throws(TidemarkError) in try Self.values(json, of: table) }
        let body = columns ?? [:]
        method = request.method
        precondition = request.precondition
        self.table = table
        let key: String
        if let segment = request.key {
            key = try RecordPath.key(segment, of: table) { $0.removingPercentEncoding }
            try Self.refuse(otherKeyThan: key, in: body, of: table)
        } else {
            key = try Self.key(in: body, of: table, temporaryID: temporaryID)
        }
        let values = table.columns.filter { !table.key.contains($0.name) }
        change = ClientWrite(
            table: table.name, operation: request.operation, key: key,
            base: request.precondition.revision.map { max($0, seen ?? 0) },
            values: values.compactMap { column in body[column.name].map { (column.name, $0) } })
        try refuseTemporaryKey()
        try refuseIncompleteRecord()
    }

    /// The key as the client spells it, JSON; a temporary id if the server gives one.
    var key: String { change.key }
    var operation: TidemarkCore.Operation { change.operation }

    private static func key(in body: [String: String], of table: SyncedTable, temporaryID: Int64) throws(TidemarkError)
        -> String
    {
        if table.keyKind == .integer {
            return body[table.key[0]].flatMap { $0 == "null" ? nil : $0 } ?? "\(temporaryID)"
        }
        let missing = table.key.filter { body[$0] == nil }
        guard missing.isEmpty else {
            throw incomplete(missing, of: table, because: "Clients make the keys of this table.")
        }
        let parts = table.key.compactMap { body[$0] }
        return parts.count == 1 ? parts[0] : JSONText.array(parts)
    }

    /// Refuses columns of another key than the path's; a client may send back the whole record that it got.
    private static func refuse(otherKeyThan key: String, in body: [String: String], of table: SyncedTable)
        throws(TidemarkError)
    {
        let parts = table.key.count == 1 ? [key] : JSONParts.elements(of: key) ?? []
        for (column, part) in zip(table.key, parts) where body[column] ?? part != part {
            throw TidemarkError(
                .invalidKey, "The record has another key than the path, and a key never changes.",
                fix: "Leave the key out. To give a record another key, create a new one and delete this one.",
                place: .init(table: table.name, key: key, column: column))
        }
    }

    private func refuseTemporaryKey() throws(TidemarkError) {
        guard method == .put, operation == .create, table.keyKind == .integer, let id = Int64(key), id < table.lowestID
        else { return }
        throw TidemarkError(
            .invalidKey, "A negative id is temporary, so no record can be found under it.",
            fix: "POST the record to the table; then the server gives the id.",
            place: .init(table: table.name, key: key))
    }

    private func refuseIncompleteRecord() throws(TidemarkError) {
        guard method == .put, operation == .update else { return }
        let written = Set(change.values.map(\.column))
        let missing = table.valueColumns.map(\.name).filter { !written.contains($0) }
        guard !missing.isEmpty else { return }
        throw Self.incomplete(missing, of: table, because: "PUT replaces a whole record.")
    }

    private static func incomplete(_ columns: [String], of table: SyncedTable, because reason: String) -> TidemarkError
    {
        TidemarkError(
            .incompleteRecord, "The record lacks \(columns.joined(separator: ", ")).",
            fix: "\(reason) Send these columns, too; PATCH changes single columns.",
            place: .init(table: table.name, column: columns.first))
    }
}

extension RecordWrite {
    /// Reads the values of a record without white space between them, by column, in the protocol's JSON.
    ///
    /// `$revision`, `$key` and `$overruled` mean nothing here, so that a client can send back the record that it got.
    private static func values(_ json: String, of table: SyncedTable) throws(TidemarkError) -> [String: String] {
        guard let members = JSONParts.members(of: json) else {
            throw TidemarkError(
                .malformedRequest, "The record is not a JSON object.",
                fix: #"Send the columns and their values: {"name": "Anna", "goals": 7}."#,
                place: .init(table: table.name))
        }
        let columns = Set(table.columns.map(\.name))
        var values: [String: String] = [:]
        for member in members where !answered.contains(member.name) {
            guard let name = RecordText.column(of: member.name), columns.contains(name) else {
                throw TidemarkError(
                    .unknownColumn, "The table has no column of this name that a client can write.",
                    fix: "Use the names of CREATE TABLE. A column whose name begins with $ has one more $.",
                    place: .init(table: table.name, column: member.name))
            }
            guard let value = value(member.value) else { throw invalid(name, table) }
            guard values.updateValue(value, forKey: name) == nil else {
                throw TidemarkError(
                    .duplicateName, "The record has a column twice.",
                    fix: "Give each name once: readers of JSON disagree on which one counts.",
                    place: .init(table: table.name, column: name))
            }
        }
        return values
    }

    /// The members of an answer that are not columns.
    private static let answered: Set<String> = ["$revision", "$key", "$overruled"]

    /// Returns a value in the protocol's JSON; nil for a text that is no value of a column.
    private static func value(_ json: String) -> String? {
        switch json.utf8.first ?? 0 {
        case UInt8(ascii: "\""), UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return json
        case UInt8(ascii: "{"):
            guard let members = JSONParts.members(of: json), members.count == 1, let tag = members.first,
                tag.name.hasPrefix("$"), tag.value.hasPrefix("\"")
            else { return nil }
            return tag.name == "$int" ? integer(tag.value) : json
        default: return ["null", "true", "false"].contains(json) ? json : nil
        }
    }

    /// Returns the digits in a JSON string; nil if they are no integer of 64 bits.
    private static func integer(_ string: String) -> String? {
        let digits = string.dropFirst().dropLast()
        return Int64(digits).map(String.init).flatMap { $0 == digits ? $0 : nil }
    }

    private static func invalid(_ column: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .invalidValue, "The value is neither a text, a number, null, nor a tagged value.",
            fix: #"REST.md lists the form of every value; an array or object is a text in quotes."#,
            place: .init(table: table.name, column: column))
    }
}
