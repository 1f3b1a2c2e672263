import Foundation

/// An answer, parsed as any JSON library would.
package struct Answer {
    /// The members.
    package let object: [String: Any]

    package init(_ bytes: [UInt8]) throws {
        let parsed = try JSONSerialization.jsonObject(with: Data(bytes))
        guard let object = parsed as? [String: Any] else { throw NoObject() }
        self.object = object
    }

    package var maxRevision: Int? { object["maxRevision"] as? Int }
    package var more: Bool? { object["more"] as? Bool }
    package var epoch: String? { object["epoch"] as? String }
    package var schema: String? { object["schema"] as? String }

    /// The change sets in their order.
    package var changeSets: [ChangeSet] { (object["changeSets"] as? [[String: Any]] ?? []).map(ChangeSet.init) }

    /// The revisions of the change sets; nil for a conflict.
    package var revisions: [Int?] { changeSets.map(\.revision) }

    /// An answer is an object.
    struct NoObject: Error {}

    /// One change set of an answer.
    package struct ChangeSet {
        package let object: [String: Any]

        package var id: String? { object["id"] as? String }
        package var revision: Int? { object["revision"] as? Int }
        package var isConflict: Bool? { object["conflict"] as? Bool }
        package var types: [String]? { object["types"] as? [String] }
        package var reasons: [[String: Any]] { object["reasons"] as? [[String: Any]] ?? [] }
        package var rules: [String] { reasons.compactMap { $0["rule"] as? String } }

        package func ids(_ operation: String, _ table: String) -> [Int]? {
            (object[table] as? [String: Any])?[operation] as? [Int]
        }

        package func attributes(_ table: String, _ key: String) -> [String: Any]? {
            let part = object[table] as? [String: Any]
            return (part?["attributes"] as? [String: [String: Any]])?[key]
        }
    }
}
