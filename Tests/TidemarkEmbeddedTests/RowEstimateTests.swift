import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

@testable import TidemarkEmbedded

/// The numbers of rows that the server states without counting them all.
@Suite struct RowEstimateTests {
    private static func estimate(_ sql: String) async throws -> RowEstimate {
        let zone = try TestZone(sql)
        return try await zone.store.read(.local("main"), ZoneQuestion { try $0.estimate($0.schema.tables[0]) })
    }

    private static func rows(_ count: Int, from first: Int = 1) -> String {
        "WITH RECURSIVE n(i) AS (SELECT \(first) UNION ALL SELECT i + 1 FROM n WHERE i < \(first + count - 1))"
    }

    @Test func `a table of text keys is counted to ten thousand, and then said to have more`() async throws {
        let make = "CREATE TABLE todo (id TEXT PRIMARY KEY, v TEXT);"
        let few = "INSERT INTO todo \(Self.rows(10_000)) SELECT 'k' || i, 'x' FROM n"
        #expect(try await Self.estimate(make + few) == .about(10_000))
        let many = "INSERT INTO todo \(Self.rows(20_000)) SELECT 'k' || i, 'x' FROM n"
        #expect(try await Self.estimate(make + many) == .atLeast(10_000))
    }

    @Test(arguments: [
        ("DELETE FROM dish WHERE id BETWEEN 5000 AND 7993", 27_006), ("DELETE FROM dish WHERE id % 10 = 0", 27_000),
        ("INSERT INTO dish \(rows(500, from: 1 << 30)) SELECT i, 'lent' FROM n", 30_500),
    ])
    func `deleted and lent ids are not counted as rows`(change: String, count: Int) async throws {
        let make = "CREATE TABLE dish (id INTEGER PRIMARY KEY, v TEXT);"
        let rows = "INSERT INTO dish \(Self.rows(30_000)) SELECT i, 'x' FROM n;"
        guard case .about(let estimate) = try await Self.estimate(make + rows + change) else {
            Issue.record("no estimate")
            return
        }
        #expect(abs(estimate - count) < count / 10, "\(estimate)")
    }
}
