import Foundation
package import TidemarkCore

/// The body of `POST /batch`.
package struct WriteBatch: Hashable, Sendable {
    /// The most entries.
    package static let entriesMax = 1_000
    /// The most bytes of a body.
    package static let bytesMax = 8 << 20

    /// Whether the entries are one change set, so that all are done or none.
    package let isAtomic: Bool
    /// The entries, or the problem of each that cannot be read.
    package let requests: [Result<WriteRequest, Problem>]

    /// Reads a body.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `malformedRequest`, or `tooLarge` for too many entries.
    package init(_ body: [UInt8]) throws(TidemarkError) {
        guard let members = JSONParts.members(of: try WriteRequest.json(of: body)),
            let list = members.first(where: { $0.name == "requests" })?.value,
            let entries = JSONParts.elements(of: list), Set(members.map(\.name)).isSubset(of: ["atomic", "requests"]),
            members.count == Set(members.map(\.name)).count
        else { throw Self.malformed("The body is not a batch.") }
        let atomic = members.first { $0.name == "atomic" }?.value ?? "true"
        guard ["true", "false"].contains(atomic) else { throw Self.malformed("atomic is neither true nor false.") }
        guard !entries.isEmpty else { throw Self.malformed("The batch has no entries.") }
        guard entries.count <= Self.entriesMax else { throw Self.tooLarge }
        isAtomic = atomic == "true"
        requests = entries.enumerated().map { index, entry in
            do throws(TidemarkError) { return .success(try Self.request(entry)) } catch {
                return .failure(Problem(error, index: index))
            }
        }
    }

    /// The refusal of a batch beyond the bounds.
    package static let tooLarge = TidemarkError(
        .tooLarge, "The batch is larger than \(entriesMax) entries or \(bytesMax >> 20) MiB.",
        fix: "Send several batches of at most \(entriesMax) entries and \(bytesMax >> 20) MiB each.")

    private static let names: Set<String> = ["method", "path", "body", "ifMatch", "ifNoneMatch"]

    private static func request(_ entry: String) throws(TidemarkError) -> WriteRequest {
        guard let members = JSONParts.members(of: entry), Set(members.map(\.name)).isSubset(of: names) else {
            throw malformed("An entry has another form.")
        }
        let values = Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
        guard values.count == members.count, let method = text(values["method"]).flatMap(WriteRequest.Method.init),
            let path = text(values["path"])
        else { throw malformed("An entry has no method, or no path.") }
        let (table, key) = try names(in: path, of: method)
        guard (method == .delete) == (values["body"] == nil) else {
            throw malformed("POST, PATCH and PUT have a body, and DELETE has none.")
        }
        return WriteRequest(
            method: method, table: table, key: key, body: values["body"],
            precondition: try Precondition(
                ifMatch: text(values["ifMatch"]), ifNoneMatch: text(values["ifNoneMatch"]), of: method))
    }

    /// Returns the table and the key in a path such as `tables/player/2`.
    private static func names(in path: String, of method: WriteRequest.Method) throws(TidemarkError) -> (
        table: String, key: String?
    ) {
        let parts = path.drop { $0 == "/" }.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.first == "tables", parts.count == (method == .post ? 2 : 3),
            let table = parts[1].removingPercentEncoding
        else { throw malformed("The path of an entry does not fit its method.") }
        return (table, method == .post ? nil : parts[2])
    }

    /// Returns the text of a JSON string; nil for another value.
    private static func text(_ json: String?) -> String? {
        guard let json, json.hasPrefix("\"") else { return nil }
        // A string with half a surrogate pair is no text, and the caller refuses it as any other value.
        return try? JSONDecoder().decode([String].self, from: Data("[\(json)]".utf8)).first
    }

    private static func malformed(_ message: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest,
            message,
            fix: #"""
                Send {"requests": [{"method": "PATCH", "path": "tables/player/2", "ifMatch": "1-1b60e08c", \#
                "body": {"goals": 7}}]}; REST.md lists the members.
                """#
        )
    }
}
