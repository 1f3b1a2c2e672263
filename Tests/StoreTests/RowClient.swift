import Foundation
import StoreTestSupport
import TidemarkCore
import TidemarkEngine

@testable import TidemarkServer

/// A client that keeps no rows, and the zone that it writes to.
struct RowClient {
    static let epoch = "1b60e08c-7d0e-4b8e-9a51-000000000001"

    static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT NOT NULL, goals INTEGER DEFAULT 0 CHECK (goals >= 0));
        CREATE TABLE country (code TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE state (country TEXT, code TEXT, size REAL, PRIMARY KEY (country, code));
        INSERT INTO team VALUES (1, 'Kiel'), (2, 'Flensburg');
        INSERT INTO player VALUES (1, 1, 'Anna', 1), (2, 1, 'Ben', 2);
        INSERT INTO country VALUES ('DE', 'Germany');
        INSERT INTO state VALUES ('DE', 'SH', 9.5);
        """

    let zone: Zone

    init(_ store: Store, policies: [String: ConflictPolicy] = [:]) async throws {
        zone = try await Zone(
            store, Self.schema, policies: policies, epoch: UUID(uuidString: Self.epoch) ?? UUID(),
            now: { 1_700_000_000_000 })
    }

    /// Whether a tag is that of a record that a logged revision changed last.
    static func isTag(_ tag: String?, of revision: Int64) -> Bool {
        guard let tag = tag.flatMap({ RecordTag(entityTag: $0) }), tag.revision == revision else { return false }
        return tag.state.text.hasPrefix("\(revision)-\(epoch.prefix(8))") && tag.state.text.count > 12
    }

    /// The tag of a record that a revision changed last, without the hash of the history.
    static func tag(_ revision: Int64) -> String { "\"\(revision)-\(epoch.prefix(8))\"" }

    /// An id for a change set.
    static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(100_000_000_000 + number)" }

    /// Sends one write; the path is beneath `tables/`.
    func write(
        _ method: WriteRequest.Method, _ path: String, _ body: String? = nil, ifMatch: String? = nil,
        ifNoneMatch: String? = nil, id: String = UUID().uuidString.lowercased(), seen: Int64? = nil,
        isMinimal: Bool = false
    ) async throws -> WriteAnswer {
        let parts = path.split(separator: "/").map(String.init)
        let request = WriteRequest(
            method: method, table: parts[0], key: parts.count > 1 ? parts[1] : nil,
            body: try body.map { String(decoding: try WriteRequest.json(of: Array($0.utf8)), as: UTF8.self) },
            precondition: try Precondition(ifMatch: ifMatch, ifNoneMatch: ifNoneMatch, of: method))
        let writes = ClientWrites(id: id, requests: [request], seen: seen, isMinimal: isMinimal)
        return try await zone.service.write(writes, .local("main"))[0]
    }

    /// Sends an atomic batch.
    func batch(_ requests: String, id: String = UUID().uuidString.lowercased()) async throws -> [WriteAnswer] {
        let batch = try WriteBatch(Array(#"{"requests":\#(requests)}"#.utf8))
        let writes = ClientWrites(id: id, requests: try batch.requests.map { try $0.get() })
        return try await zone.service.write(writes, .local("main"))
    }

    /// The problem with which the server refuses a request; nil if it accepts it.
    static func problem(_ request: () async throws -> Void) async throws -> Problem? {
        do {
            try await request()
            return nil
        } catch { return try Problem(refusal: error, index: nil) ?? { throw error }() }
    }
}
