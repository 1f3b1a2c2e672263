import Foundation
import Testing

/// An answer as any JSON library reads it.
struct Answer {
    /// The members.
    let object: [String: Any]

    init(_ bytes: [UInt8]) throws {
        let parsed = try JSONSerialization.jsonObject(with: Data(bytes))
        object = try #require(parsed as? [String: Any], "an answer is an object")
    }

    var maxRevision: Int? { object["maxRevision"] as? Int }
    var more: Bool? { object["more"] as? Bool }
    var epoch: String? { object["epoch"] as? String }

    /// The change sets in their order.
    var changeSets: [ChangeSet] {
        (object["changeSets"] as? [[String: Any]] ?? []).map(ChangeSet.init)
    }

    /// The revisions of the change sets; nil for a conflict.
    var revisions: [Int?] { changeSets.map(\.revision) }

    /// One change set of an answer.
    struct ChangeSet {
        let object: [String: Any]

        var id: String? { object["id"] as? String }
        var revision: Int? { object["revision"] as? Int }
        var isConflict: Bool? { object["conflict"] as? Bool }
        var types: [String]? { object["types"] as? [String] }
        var reasons: [[String: Any]] { object["reasons"] as? [[String: Any]] ?? [] }
        var rules: [String] { reasons.compactMap { $0["rule"] as? String } }

        func ids(_ operation: String, _ table: String) -> [Int]? {
            (object[table] as? [String: Any])?[operation] as? [Int]
        }

        func attributes(_ table: String, _ key: String) -> [String: Any]? {
            let part = object[table] as? [String: Any]
            return (part?["attributes"] as? [String: [String: Any]])?[key]
        }
    }
}
