import Foundation
import NIOCore
import Testing
import TidemarkCore

@testable import TidemarkServer

/// Errors as clients see them.
@Suite struct ErrorAnswerTests {
    private static let statuses: [(ErrorCode, Int)] = [
        (.malformedRequest, 400), (.duplicateName, 400), (.unknownTable, 400), (.unknownColumn, 400),
        (.invalidValue, 400), (.invalidKey, 400), (.unknownTemporaryId, 400), (.invalidArgument, 400),
        (.unknownZone, 404), (.unknownPath, 404), (.methodNotAllowed, 405), (.revisionAhead, 409),
        (.epochMismatch, 409), (.schemaMismatch, 409), (.changeSetIdReused, 409), (.predecessorMissing, 409),
        (.identityInUse, 409), (.snapshotRequired, 410), (.fullRequestRequired, 412), (.tooLarge, 413),
        (.unsupportedEncoding, 415), (.rangeNotSatisfiable, 416), (.brokenReference, 422), (.constraintViolated, 422),
        (.unavailable, 503), (.storageFailed, 503), (.fileDamaged, 500), (.internalFailure, 500), (.unusableFile, 500),
        (.unsyncableSchema, 500), (.unreachable, 500), (.invalidResponse, 500),
        (ErrorCode(rawValue: "someLaterCode"), 500),
    ]

    @Test(arguments: statuses) func `every error keeps its code, text, recovery and place in the answer`(
        code: ErrorCode, status: Int
    ) async throws {
        let place = TidemarkError.Place(changeSet: 2, id: "c0ffee", table: "cities", key: "[1,\"é\"]", column: "name")
        let thrown = TidemarkError(code, "What happened.", fix: "What to do.", place: place)
        try await TestServer.run(ScriptedService { _, _ in throw thrown }) { server in
            let answer = try await server.send(.POST, "/sync", body: .bytes(ByteBuffer()))
            #expect(answer.status == status)
            #expect(answer.headers.first(name: "Content-Type") == "application/json")
            #expect(answer.text.hasSuffix("}\n"))
            #expect(try answer.error == thrown)
            #expect(answer.text.contains(#""recovery":"\#(thrown.recovery.rawValue)""#))
            let retryAfter = answer.headers.first(name: "Retry-After")
            #expect(retryAfter == (status == 503 ? "5" : nil))
        }
    }

    @Test func `a place has only known members`() async throws {
        let thrown = TidemarkError(
            .unknownTable, "No table tems.", fix: "Write teams.", place: .init(changeSet: 0, table: "tems"))
        try await TestServer.run(ScriptedService { _, _ in throw thrown }) { server in
            let answer = try await server.send(.POST, "/sync", body: .bytes(ByteBuffer()))
            #expect(
                answer.text == """
                    {"error":{"code":"unknownTable","fix":"Write teams.",\
                    "message":"No table tems.","place":{"changeSet":0,"table":"tems"},\
                    "recovery":"permanent"}}

                    """
            )
        }
    }

    @Test func `a defect's details go to the log only, with an id that the answer has`() async throws {
        struct Defect: Error { let secret = "hunter2" }
        try await TestServer.run(ScriptedService { _, _ in throw Defect() }) { server in
            let answer = try await server.send(.POST, "/sync", body: .bytes(ByteBuffer()))
            #expect(answer.status == 500)
            let error = try answer.error
            #expect(error.code == .internalFailure)
            #expect(error.place == TidemarkError.Place())
            #expect(!answer.text.contains("hunter2"))
            #expect(!answer.text.contains("Defect"))
            #expect(!"\(answer.headers)".contains("hunter2"))
            #expect(server.log.all.contains { $0.hasPrefix("error:") && $0.contains("hunter2") })
        }
    }

    @Test(arguments: ["/", "/synk", "/zones/a/b/sync", "/zones", "/healthz/x"])
    func `the answer for an unknown path lists the valid paths`(path: String) async throws {
        try await TestServer.run(ScriptedService()) { server in
            let answer = try await server.send(.GET, path)
            #expect(answer.status == 404)
            let error = try answer.error
            #expect(error.code == .unknownPath)
            #expect(error.message.contains(path))
            #expect(error.fix.contains("POST /sync"))
            #expect(error.fix.contains("GET /snapshot"))
        }
    }

    @Test func `the answer for a wrong method names the right one`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let put = try await server.send(.PUT, "/zones/teams/sync")
            #expect(put.status == 405)
            #expect(put.headers.first(name: "Allow") == "GET, HEAD, POST")
            #expect(try put.error.fix == "It answers to GET, HEAD, POST.")
            let get = try await server.send(.GET, "/fingerprints")
            #expect(get.headers.first(name: "Allow") == "POST")
            let post = try await server.send(.POST, "/snapshot", body: .bytes(ByteBuffer(string: "{}")))
            #expect(post.status == 405)
            #expect(post.headers.first(name: "Allow") == "GET, HEAD")
            #expect(try post.error.code == .methodNotAllowed)
            let record = try await server.send(.POST, "/tables/note/5", body: .bytes(ByteBuffer(string: "{}")))
            #expect(record.headers["Content-Type"] == ["application/problem+json"])
            #expect(
                try record.error.fix == "It answers to GET, HEAD, PATCH, PUT, DELETE. POST a new record to its table.")
            let table = try await server.send(.PATCH, "/tables/note", body: .bytes(ByteBuffer(string: "{}")))
            #expect(try table.error.fix.hasSuffix("Add the key of the record.") == true)
        }
    }

    @Test func `a path that people try first says where to go`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            for (path, hint) in [
                ("/", "/dashboard/"), ("/dashboard/snapshot/x", "Leave /dashboard/ out"), ("/zones", "--users"),
            ] {
                let answer = try await server.send(.GET, path)
                #expect(answer.status == 404)
                #expect(try answer.error.fix.contains(hint), "\(path)")
            }
        }
    }

    @Test func `every answer forbids guessing at its type`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            for path in ["/healthz", "/schema", "/nowhere", "/tables"] {
                let answer = try await server.send(.GET, path)
                #expect(answer.headers["X-Content-Type-Options"] == ["nosniff"], "\(path)")
                #expect(answer.headers["Strict-Transport-Security"].isEmpty, "this server does not encrypt")
            }
        }
    }

    @Test(arguments: ["", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nhost: evil.example\r\n"])
    func `a request without a host name, or with two, is refused and the connection closed`(hosts: String) async throws
    {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let body = "Content-Length: 2\r\n\r\n{}"
            let answer = try await server.exchange("POST /sync HTTP/1.1\r\n\(hosts)\(body)", until: "}")
            #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(answer)")
            #expect(answer.contains("Connection: close") && answer.contains("malformedRequest"))
            #expect(service.calls.isEmpty)
            let old = try await server.exchange("GET /healthz HTTP/1.0\r\n\r\n", until: "ok\n")
            #expect(old.hasPrefix("HTTP/1.") && old.contains(" 200 "), "\(old)")
        }
    }

    @Test func `a token that somebody pastes into a path is not in the log`() async throws {
        let own = "tmd_23456789_" + String(repeating: "z", count: 52)
        let foreign = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl"
        try await TestServer.run(ScriptedService()) { server in
            let encoded = own.replacing("tmd_", with: "%74md%5F")
            let twice = foreign.replacing(".", with: "%252E")
            for token in [own, foreign, encoded, twice] {
                for path in [
                    "/nosuch/\(token)", "/zones/\(token)/schema", "/\(String(repeating: "x", count: 180))/\(token)",
                ] {
                    _ = try await server.send(.GET, path)
                }
            }
            let lines = server.log.all.joined(separator: "\n")
            #expect(lines.contains("path=/nosuch/TOKEN") && lines.contains("zone=TOKEN"), "\(lines)")
            #expect(!lines.contains("zzzz") && !lines.contains("eyJ"), "\(lines)")
        }
    }

    @Test func `every request leaves one line in the log, without its query`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            _ = try await server.send(.GET, "/healthz?token=hunter2")
            _ = try await server.send(.GET, "/nowhere")
            let lines = server.log.all.filter { $0.contains(" milliseconds=") }
            #expect(lines.count == 2)
            #expect(lines[0].hasPrefix("info: answered bytes=3 method=GET milliseconds="))
            #expect(lines[0].hasSuffix(" route=/healthz status=200"))
            #expect(lines[1].contains(" code=unknownPath method=GET "))
            #expect(lines[1].hasSuffix(" path=/nowhere route=unknown status=404"))
            #expect(!lines.joined().contains("hunter2"))
        }
    }

    @Test func `a port in use is a typed error, not a crash`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let second = TidemarkServerApplication(
                service: ScriptedService(), port: server.port, logger: server.log.logger)
            let error = await #expect(throws: TidemarkError.self) { try await second.run(stopsOnSignals: false) }
            #expect(error?.code == .invalidArgument)
            #expect(error?.message.contains("127.0.0.1:\(server.port)") == true)
            #expect(error?.message.contains("Address already in use") == true)
        }
    }
}
