import Foundation
package import TidemarkCore
package import TidemarkEngine

/// Questions about rows, as a client without rows asks them.
extension SyncService {
    /// Reads a page or a record of a zone as the server sends it: `tables/city?population=gt.5` or `tables/city/7`.
    package func recordJSON(_ path: String, zone: String) async throws -> String {
        let sides = path.split(separator: "?", maxSplits: 1).map(String.init)
        let segments = sides[0].split(separator: "/").map(String.init)
        let items = try ListQuery.Item.items(sides.count > 1 ? sides[1] : "")
        let answer = try await read(
            .local(zone),
            ZoneQuestion { reader in
                let records = ListRecords(reader)
                let table = try reader.schema.table(segments[1])
                guard segments.count > 2 else { return try records.page(items, of: table) }
                let key = try RecordPath.key(segments[2], of: table) { $0.removingPercentEncoding }
                return try records.record(key, in: table, selecting: items)
            }
        )
        return answer.json ?? ""
    }
}

/// Questions about rows, as a client without rows asks them.
extension Zone {
    /// Answers a question in a read transaction.
    package func ask<Answer: Sendable>(_ body: @escaping @Sendable (any ZoneReader) throws -> Answer) async throws
        -> Answer
    {
        try await service.read(.local("main"), ZoneQuestion(body))
    }

    /// Reads a page or a record: `tables/city?population=gt.5&limit=2` or `tables/city/7`.
    package func page(_ path: String) async throws -> RecordPage {
        try RecordPage(try await json(path))
    }

    /// Reads a page or a record as the server sends it.
    package func json(_ path: String) async throws -> String { try await service.recordJSON(path, zone: "main") }

    /// Reads all pages of a list, and calls `between` after each but the last.
    package func walk(_ path: String, between: () async throws -> Void = {}) async throws -> [RecordPage] {
        var pages = [try await page(path)]
        while let next = pages.last?.next {
            try await between()
            pages.append(try await page("\(path)\(path.contains("?") ? "&" : "?")after=\(next)"))
        }
        return pages
    }

    /// The code of the error that refuses a question; nil if it has an answer.
    package func refusal(ofPage path: String) async throws -> ErrorCode? {
        do {
            _ = try await json(path)
            return nil
        } catch let error as TidemarkError { return error.code }
    }
}

/// An answer about rows, parsed as any JSON library would.
package struct RecordPage {
    /// The members.
    package let object: [String: Any]

    package init(_ json: String) throws {
        let parsed = try JSONSerialization.jsonObject(with: Data(json.utf8))
        guard let object = parsed as? [String: Any] else { throw Unreadable() }
        self.object = object
    }

    /// The records of a page.
    package var records: [[String: Any]] { object["records"] as? [[String: Any]] ?? [] }
    /// The keys of the records.
    package var keys: [String] { records.map { $0["$key"] as? String ?? "" } }
    /// The cursor of the next page.
    package var next: String? { object["next"] as? String }
    /// The revision of the first page.
    package var since: Int64 { (object["since"] as? NSNumber)?.int64Value ?? 0 }
    /// The revision of the page.
    package var revision: Int64 { (object["revision"] as? NSNumber)?.int64Value ?? 0 }

    /// The values of one column.
    package func values(_ column: String) -> [String] { records.map { "\($0[column] ?? "-")" } }

    /// A question or an answer that cannot be read.
    struct Unreadable: Error {}
}

extension ListQuery.Item {
    /// The items of a query, as the server splits them.
    fileprivate static func items(_ query: String) throws -> [ListQuery.Item] {
        try query.split(separator: "&").map { part in
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard sides.count == 2, let name = sides[0].removingPercentEncoding,
                let value = sides[1].removingPercentEncoding
            else { throw RecordPage.Unreadable() }
            return ListQuery.Item(name: name, value: value)
        }
    }
}
