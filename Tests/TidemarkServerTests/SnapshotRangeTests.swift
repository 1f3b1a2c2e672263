import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkEngine

@testable import TidemarkServer

/// Rule 34: range requests for the rest of a snapshot.
@Suite struct SnapshotRangeTests {
    @Test func `case 59: a range request with the file's tag gets the rest of the file`() async throws {
        try await withServer { server, snapshot in
            let answer = try await server.send(
                .GET, "/snapshot", headers: ["Range": "bytes=150000-", "If-Range": "\"\(snapshot.tag)\""])
            #expect(answer.status == 206)
            #expect(answer.body == Array(content[150_000...]))
            let headers = answer.headers
            #expect(headers.first(name: "Content-Range") == "bytes 150000-199999/200000")
            #expect(headers.first(name: "Content-Length") == "50000")
            #expect(headers.first(name: "ETag") == "\"\(snapshot.tag)\"")
            #expect(headers.first(name: "Content-Type") == "application/gzip")
            #expect(headers.first(name: "Tidemark-Revision") == "42")
        }
    }

    @Test(arguments: [
        ("bytes=199999-", 199_999...199_999), ("bytes=0-", 0...199_999), ("bytes=7-7", 7...7),
        ("Bytes=5-99999999999999999999", 5...199_999),
    ]) func `a range includes its last byte`(range: String, part: ClosedRange<Int>) async throws {
        try await withServer { server, snapshot in
            let answer = try await server.send(
                .GET, "/snapshot", headers: ["Range": range, "If-Range": "\"\(snapshot.tag)\""])
            #expect(answer.status == 206)
            #expect(answer.body == Array(content[part]))
        }
    }

    @Test func `case 59: a range request without the current tag gets the whole file`() async throws {
        try await withServer { server, snapshot in
            let tag = "\"\(snapshot.tag)\""
            let requests: [HTTPHeaders] = [
                ["Range": "bytes=5-"], ["Range": "bytes=5-", "If-Range": "\"e1-42\""],
                ["Range": "bytes=5-", "If-Range": "W/\(tag)"], ["Range": "bytes=5-", "If-Range": snapshot.tag],
                ["Range": "bytes=5-", "If-Range": "Sat, 21 Nov 2026 20:00:00 GMT"],
                ["Range": "bytes=5-6,8-9", "If-Range": tag], ["Range": "bytes=-5", "If-Range": tag],
                ["Range": "bytes=6-5", "If-Range": tag], ["Range": "bytes=+5-", "If-Range": tag],
                ["Range": "bytes=5", "If-Range": tag], ["Range": "rows=5-", "If-Range": tag],
                ["Range": "bytes=900000-", "If-Range": "\"another\""], ["If-Range": tag],
            ]
            for headers in requests {
                let answer = try await server.send(.GET, "/snapshot", headers: headers)
                #expect(answer.status == 200, "\(headers)")
                #expect(answer.headers.first(name: "Content-Range") == nil)
                #expect(answer.body == content, "\(headers)")
            }
        }
    }

    @Test(arguments: ["bytes=200000-", "bytes=99999999999999999999-"])
    func `a range after the end is refused with the file's length`(range: String) async throws {
        try await withServer { server, snapshot in
            let answer = try await server.send(
                .GET, "/snapshot", headers: ["Range": range, "If-Range": "\"\(snapshot.tag)\""])
            #expect(answer.status == 416)
            #expect(answer.headers.first(name: "Content-Range") == "bytes */200000")
            #expect(try answer.error.code == .rangeNotSatisfiable)
        }
    }

    @Test func `HEAD ignores ranges`() async throws {
        try await withServer { server, snapshot in
            let answer = try await server.send(
                .HEAD, "/snapshot", headers: ["Range": "bytes=5-", "If-Range": "\"\(snapshot.tag)\""])
            #expect(answer.status == 200)
            #expect(answer.headers.first(name: "Content-Length") == "200000")
            #expect(answer.headers.first(name: "Accept-Ranges") == "bytes")
        }
    }

    private let content = noise(count: 200_000)

    private func withServer(_ body: @Sendable (TestServer, SnapshotFile) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            let snapshot = try snapshotFile(content, in: directory)
            try await TestServer.run(ScriptedService(snapshot: snapshot)) { server in try await body(server, snapshot) }
        }
    }
}
