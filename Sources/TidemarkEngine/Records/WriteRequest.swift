package import TidemarkCore

/// A write to one record, as a client without rows sends it.
package struct WriteRequest: Hashable, Sendable {
    /// The method.
    package enum Method: String, Hashable, Sendable {
        case post = "POST"
        case patch = "PATCH"
        case put = "PUT"
        case delete = "DELETE"
    }

    /// The method.
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

    /// The kind of change.
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
                .invalidArgument,
                "\(method.rawValue) has another precondition than these headers.",
                fix: "PATCH, PUT and DELETE have If-Match; PUT may have If-None-Match: * instead; POST has neither."
            )
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
