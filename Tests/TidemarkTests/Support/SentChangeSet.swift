import Foundation
import Testing
import TidemarkTestSupport

/// A change set from a request, in a text form for comparison.
struct SentChangeSet: Equatable {
    let id: String
    let after: [String]
    /// One line a record, for instance `update notes 1 (done, text)`; a temporary id reads `new`.
    let records: [String]

    /// Reads the change sets of a request's body.
    static func all(in body: String) throws -> [SentChangeSet] {
        let request = try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
        let sets = request?["changeSets"] as? [[String: Any]] ?? []
        return sets.map { set in
            SentChangeSet(
                id: set["id"] as? String ?? "",
                after: set["after"] as? [String] ?? [],
                records: (set["types"] as? [String] ?? []).sorted().flatMap {
                    records(of: $0, set[$0] as? [String: Any] ?? [:])
                }
            )
        }
    }

    private static func records(of table: String, _ part: [String: Any]) -> [String] {
        let attributes = part["attributes"] as? [String: [String: Any]] ?? [:]
        return ["create", "update", "delete"].flatMap { operation in
            (part[operation] as? [Any] ?? []).map { key in
                let key = "\(key)"
                let columns = attributes[key, default: [:]].keys.filter { $0 != "revision" }
                let keyText = key.hasPrefix("-") ? "new" : key
                let list = columns.isEmpty ? "" : " (\(columns.sorted().joined(separator: ", ")))"
                return "\(operation) \(table) \(keyText)\(list)"
            }
        }
    }
}

extension TestDevice {
    /// The change sets of all requests so far, one element a request.
    var sent: [[SentChangeSet]] { get throws { try transport.faults.requests.map(SentChangeSet.all) } }

    /// The records of the change sets that the last request with any carried.
    var lastSent: [[String]] { get throws { try sent.last { !$0.isEmpty }?.map(\.records) ?? [] } }

    /// Syncs over a lossy network, and expects the error.
    func syncInVain() async { await #expect(throws: FaultPlan.lost) { try await engine.sync() } }
}
