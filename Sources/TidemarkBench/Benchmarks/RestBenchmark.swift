import AsyncHTTPClient
import Foundation
import GRDB
import NIOCore
import NIOHTTP1
import TidemarkCore
import TidemarkServer

/// Rows for clients that keep none: pages, single records, writes and the feed.
enum RestBenchmark: Benchmark {
    static let name = "rest"
    static let summary = "pages, records, writes and the feed of clients that keep no rows"

    private static let processor = "server's processor time, each"
    private static let clients = 50

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let page = "/tables/item?limit=100"
        var cases = [
            reading("no rows: GET /healthz, the least of a request", path: "/healthz", setting: setting),
            reading("a page of 100 of \(setting.rows) rows", path: page, atMost: 0.0015, setting: setting),
            reading(
                "a page of 100 in the order of an index", path: page + "&order=name", atMost: 0.0015, setting: setting),
            reading("one record", path: "/tables/item/7", atMost: 0.000_6, setting: setting),
            reading(
                "one record, unchanged (304)", path: "/tables/item/7", atMost: 0.000_4, isConditional: true,
                setting: setting),
            BenchCase(
                "the last page in the order of an index", goal: .time(1.2), against: "the first page",
                prepare: { try await lastPage(setting) }),
            BenchCase(
                "\(clients) clients, a PATCH after another", goal: .speed(0.9),
                against: "as many devices' change sets by POST /sync", prepare: { try await patches(setting) }),
        ]
        if setting.postgres == nil {
            cases.append(
                BenchCase(
                    "a page of the feed, \(6 * setting.rows) entries in the log",
                    goal: .atMost(0.025, .seconds, [processor])
                ) { try await feed(setting) })
        }
        return cases
    }

    // MARK: Reading

    private static func reading(
        _ name: String, path: String, atMost seconds: Double? = nil, isConditional: Bool = false, setting: BenchSetting
    ) -> BenchCase {
        BenchCase(name, goal: seconds.map { .atMost($0, .seconds, [processor]) }) {
            let server = try await ServerProcess(setting, rows: setting.rows)
            let count = setting.isTrial ? 5 : 1_000
            let tag = isConditional ? try await Self.tag(of: server.url() + path) : nil
            return BenchJob(
                ours: { way in
                    let request = requests(server.url(way) + path, tag)
                    return try await measured(server, way: way, count: count) {
                        try await PushLoad(url: server.url(way), clients: 1, count: count).run(
                            expecting: tag == nil ? .ok : .notModified, request: request)
                    }
                },
                finish: { try await server.end() }
            )
        }
    }

    private static func requests(_ url: String, _ tag: String?) -> @Sendable (Int) -> HTTPClientRequest {
        { _ in
            var request = HTTPClientRequest(url: url)
            if let tag { request.headers.add(name: "If-None-Match", value: tag) }
            return request
        }
    }

    /// Runs requests, and adds the server's processor time for each.
    private static func measured(_ server: ServerProcess, way: BenchJob.Way, count: Int, run: () async throws -> Sample)
        async throws -> Sample
    {
        let status = server.process.status
        let before = status.processorSeconds ?? 0
        var sample = Sample(seconds: 0)
        if way == .counted {
            sample.wire = try await server.wire { sample = try await run() }
        } else {
            sample = try await run()
        }
        let used = (status.processorSeconds ?? 0) - before
        sample.figures = [Figure(processor, value: used / Double(count), unit: .seconds)]
        return sample
    }

    /// Pages in the order of an index, from its end and from its beginning.
    private static func lastPage(_ setting: BenchSetting) async throws -> BenchJob {
        let server = try await ServerProcess(setting, rows: setting.rows)
        let count = setting.isTrial ? 5 : 1_000
        let page = "/tables/item?limit=100&order=name"
        let last = try await lastCursor(page, server)
        let load = PushLoad(url: server.url(), clients: 1, count: count)
        return BenchJob(
            ours: { way in
                let url = server.url(way) + page + "&after=" + last
                return try await measured(server, way: way, count: count) {
                    try await load.run(request: requests(url, nil))
                }
            },
            ceiling: { try await load.run(request: requests(server.url() + page, nil)) },
            finish: { try await server.end() }
        )
    }

    private struct Page: Decodable { let next: String? }

    /// Walks to the last page of a thousand rows, and returns the cursor at its beginning.
    private static func lastCursor(_ page: String, _ server: ServerProcess) async throws -> String {
        let wide = server.url() + page.replacing("limit=100", with: "limit=1000")
        var cursor = ""
        var next = try await decoded(Page.self, wide).next
        while let place = next {
            cursor = place
            next = try await decoded(Page.self, "\(wide)&after=\(place)").next
        }
        try Agreement.require(!cursor.isEmpty) { "the table has only one page" }
        return cursor
    }

    private static func decoded<Value: Decodable>(_ type: Value.Type, _ url: String) async throws -> Value {
        let response = try await HTTPClient.shared.execute(HTTPClientRequest(url: url), timeout: .seconds(60))
        let body = try await response.body.collect(upTo: 64 << 20)
        try Agreement.require(response.status == .ok) { String(buffer: body) }
        return try JSONDecoder().decode(type, from: Data(body.readableBytesView))
    }

    private static func tag(of url: String) async throws -> String {
        let response = try await HTTPClient.shared.execute(HTTPClientRequest(url: url), timeout: .seconds(60))
        _ = try await response.body.collect(upTo: 64 << 20)
        return response.headers.first(name: "ETag") ?? ""
    }

    // MARK: Writing

    /// Each client edits a record of its own, and sends the tag of its last edit.
    private static func patches(_ setting: BenchSetting) async throws -> BenchJob {
        let count = setting.isTrial ? 2 : 20
        let server = try await ServerProcess(setting, rows: clients)
        let swarm = try await ServerProcess(setting, rows: 0)
        let load = PushLoad(url: swarm.url(), clients: clients, count: count)
        return BenchJob(
            ours: { way in
                try await measured(server, way: way, count: clients * count) {
                    try await PatchLoad(url: server.url(way), clients: clients, count: count).run()
                }
            },
            ceiling: { try await load.run() },
            finish: {
                try await server.end()
                try await swarm.end()
            }
        )
    }

    // MARK: The feed

    /// The first pages after an old revision, while each record has six entries in the log.
    private static func feed(_ setting: BenchSetting) async throws -> BenchJob {
        let server = try await ServerProcess(setting, rows: setting.rows)
        let revision = try await decoded(Place.self, server.url() + "/changes")
        for number in 1...6 {
            try onFile(server.folder.path("zone"), "UPDATE item SET amount = amount + \(number)")
            _ = try await decoded(Place.self, server.url() + "/changes")
        }
        let count = setting.isTrial ? 2 : 50
        return BenchJob(
            ours: { way in
                try await measured(server, way: way, count: count) {
                    var next = revision.next
                    return try await Sample.time {
                        for _ in 1...count {
                            let page = try await decoded(
                                Place.self, "\(server.url(way))/changes?limit=100&since=\(next)")
                            next = page.next
                        }
                    }
                }
            },
            finish: { try await server.end() }
        )
    }

    private struct Place: Decodable { let next: String }

    private static func onFile(_ path: String, _ sql: String) throws {
        let file = try DatabaseQueue(path: path)
        try file.write { try $0.execute(sql: sql) }
        try file.close()
    }
}
