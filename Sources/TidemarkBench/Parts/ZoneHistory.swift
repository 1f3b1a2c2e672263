import Foundation
import Tidemark

/// Adds revisions to a zone: change sets of one row each, sent as fast as the server accepts them.
struct ZoneHistory {
    let url: String
    /// The number of the zone's rows; they are changed in turn.
    let rows: Int

    private static let setsPerRequest = 1_000

    private struct Head: Decodable { let maxRevision: Int64 }

    /// Adds a number of revisions to a zone at its first.
    func add(_ revisions: Int) async throws {
        let transport = try HTTPTransport(url: url)
        let device = RandomID.text()
        for first in stride(from: 1, through: revisions, by: Self.setsPerRequest) {
            let sets = (first..<min(first + Self.setsPerRequest, revisions + 1)).map(changeSet)
            let body = """
                {"maxRevision":\(first),"limit":1,"device":"\(device)","changeSets":[\
                \(sets.joined(separator: ","))]}
                """
            let answer = try await transport.sync(zone: "main", body: Array(body.utf8))
            let head = try JSONDecoder().decode(Head.self, from: Data(answer))
            try Agreement.require(head.maxRevision == Int64(first + sets.count)) {
                "the zone is at revision \(head.maxRevision) after \(first + sets.count - 1) changes"
            }
        }
    }

    /// The n-th change; it builds on the earlier one of the same row.
    private func changeSet(_ number: Int) -> String {
        let id = 1 + (number - 1) % rows
        let base = max(1, 1 + number - rows)
        return """
            {"id":"\(RandomID.text())","item":{"update":[\(id)],"attributes":\
            {"\(id)":{"amount":\(number),"revision":\(base)}}}}
            """
    }
}
