import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// Writes over HTTP: headers, statuses, media types and problems, on a real store.
@Suite struct WriteRouteTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE state (country TEXT, code TEXT, size REAL, PRIMARY KEY (country, code));
        """

    private static func run(limits: Limits = .standard, _ body: @Sendable (TestServer, String) async throws -> Void)
        async throws
    {
        let cluster = try Cluster(schema: schema, seed: "INSERT INTO team VALUES (1, 'Kiel')", limits: limits)
        let epoch = try await cluster.store.latest(.local("main")).epoch
        try await TestServer.run(cluster.service, limits: limits) { try await body($0, String(epoch.prefix(8))) }
    }

    private static func problem(_ answer: TestServer.Answer) throws -> [String: Any] {
        #expect(answer.headers.first(name: "Content-Type") == "application/problem+json")
        return try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
    }

    @Test func `POST answers 201 with Location and ETag, and a GET finds the same record and tag there`() async throws {
        try await Self.run { server, epoch in
            let answer = try await server.send(.POST, "/tables/team", body: .bytes(.init(string: #"{"name":"Lemgo"}"#)))
            #expect(answer.status == 201)
            #expect(answer.headers.first(name: "ETag")?.hasPrefix("\"2-\(epoch)") == true)
            #expect(answer.headers.first(name: "Location") == "/tables/team/2")
            let record = try await server.send(.GET, "/tables/team/2")
            #expect(record.text == answer.text)
            #expect(record.headers.first(name: "ETag") == answer.headers.first(name: "ETag"))
            let composite = try await server.send(
                .POST, "/zones/main/tables/state",
                headers: ["Content-Type": "application/merge-patch+json; charset=utf-8"],
                body: .bytes(.init(string: #"{"country":"D,E","code":"S/H"}"#)))
            #expect(composite.headers.first(name: "Location") == "/zones/main/tables/state/D%2CE,S%2FH")
            let there = try await server.send(.GET, "/zones/main/tables/state/D%2CE,S%2FH")
            #expect(there.text == composite.text)
        }
    }

    @Test func `PATCH, PUT and DELETE answer 200, 201, 204 and 412 by their preconditions`() async throws {
        try await Self.run { server, epoch in
            let patch = try await server.send(
                .PATCH, "/tables/team/1", headers: ["If-Match": "\"1-\(epoch)\""],
                body: .bytes(.init(string: #"{"name":"THW"}"#)))
            #expect(patch.status == 200)
            #expect(patch.text == #"{"id":1,"name":"THW","$revision":2}"# + "\n")
            let stale = try await server.send(.DELETE, "/tables/team/1", headers: ["If-Match": "\"1-\(epoch)\""])
            #expect(stale.status == 412)
            let problem = try Self.problem(stale)
            #expect(problem["code"] as? String == "preconditionFailed")
            #expect(problem["type"] as? String == "urn:tidemark:error:preconditionFailed")
            #expect(problem["status"] as? Int == 412)
            #expect(problem["recovery"] as? String == "permanent")
            #expect((problem["current"] as? [String: Any])?["name"] as? String == "THW")
            #expect((problem["reasons"] as? [[String: Any]])?.first?["rule"] as? String == "changed")
            #expect((problem["place"] as? [String: Any])?["table"] as? String == "team")
            #expect(problem["index"] == nil)
            let put = try await server.send(
                .PUT, "/tables/state/DE,SH", headers: ["If-None-Match": "*"],
                body: .bytes(.init(string: #"{"size":9.5}"#)))
            #expect(put.status == 201)
            #expect(put.headers.first(name: "Location") == "/tables/state/DE,SH")
            let gone = try await server.send(.DELETE, "/tables/team/1", headers: ["If-Match": "\"2-\(epoch)\""])
            #expect(gone.status == 204)
            #expect(gone.headers.first(name: "ETag") == nil)
        }
    }

    @Test func `without If-Match the answer is 428, and its fix is the header to send`() async throws {
        try await Self.run { server, epoch in
            let answer = try await server.send(.PATCH, "/tables/team/1", body: .bytes(.init(string: #"{"name":"a"}"#)))
            #expect(answer.status == 428)
            #expect((try Self.problem(answer)["detail"] as? String)?.contains("If-Match: \"1-\(epoch)\"") == true)
        }
    }

    @Test func `Prefer: return=minimal leaves out the record, and an unknown preference is refused unless lenient`()
        async throws
    {
        try await Self.run { server, epoch in
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(string: #"{"name":"a"}"#))
            let minimal: HTTPHeaders = ["If-Match": "\"1-\(epoch)\"", "Prefer": "return=minimal"]
            let answer = try await server.send(.PATCH, "/tables/team/1", headers: minimal, body: body)
            #expect(answer.status == 204)
            #expect(answer.body.isEmpty)
            #expect(answer.headers.first(name: "ETag")?.hasPrefix("\"2-\(epoch)") == true)
            #expect(answer.headers.first(name: "Preference-Applied") == "return=minimal")
            let unknown: HTTPHeaders = ["If-Match": "*", "Prefer": "return=minimal, respond-async"]
            let refused = try await server.send(.PATCH, "/tables/team/1", headers: unknown, body: body)
            #expect(refused.status == 400)
            #expect(try Self.problem(refused)["code"] as? String == "invalidArgument")
            let lenient: HTTPHeaders = ["If-Match": "*", "Prefer": "handling=lenient, respond-async"]
            let accepted = try await server.send(.PATCH, "/tables/team/1", headers: lenient, body: body)
            #expect(accepted.status == 200)
            #expect(accepted.headers.first(name: "Preference-Applied") == "handling=lenient")
        }
    }

    @Test func `forms, XML and clients that want no JSON are refused with 415 and 406, before any effect`() async throws
    {
        try await Self.run { server, _ in
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(string: #"{"name":"a"}"#))
            for type in ["application/x-www-form-urlencoded", "text/plain", "application/xml"] {
                let answer = try await server.send(.POST, "/tables/team", headers: ["Content-Type": type], body: body)
                #expect(answer.status == 415, "\(type)")
                #expect(try Self.problem(answer)["code"] as? String == "unsupportedMediaType")
            }
            for accept in ["text/html", "application/json;q=0", "image/*"] {
                let answer = try await server.send(.POST, "/tables/team", headers: ["Accept": accept], body: body)
                #expect(answer.status == 406, "\(accept)")
            }
            for accept in ["*/*", "text/html, application/*;q=0.5", "application/json"] {
                let name = #"{"name":"\#(accept)"}"#
                let answer = try await server.send(
                    .POST, "/tables/team", headers: ["Accept": accept], body: .bytes(.init(string: name)))
                #expect(answer.status == 201, "\(accept)")
            }
        }
    }

    @Test func `errors of record routes are problems with statuses of their own, and all others stay as they are`()
        async throws
    {
        try await Self.run { server, _ in
            let table = try await server.send(.POST, "/tables/tems", body: .bytes(.init(string: "{}")))
            #expect(table.status == 404)
            #expect(try Self.problem(table)["code"] as? String == "unknownTable")
            let zone = try await server.send(.POST, "/zones/nowhere/tables/team", body: .bytes(.init(string: "{}")))
            #expect(zone.status == 404)
            #expect(try Self.problem(zone)["code"] as? String == "unknownZone")
            let sync = try await server.send(
                .POST, "/sync", body: .bytes(.init(string: #"{"maxRevision":1,"changeSets":[{"tems":{}}]}"#)))
            #expect(sync.status == 400)
            #expect(try sync.error.code == .unknownTable)
            let method = try await server.send(.PUT, "/tables/team", body: .bytes(.init(string: "{}")))
            #expect(method.status == 405)
            #expect(try method.error.code == .methodNotAllowed)
            let path = try await server.send(.GET, "/tables/team/1/2/3")
            #expect(path.status == 404)
            #expect(try path.error.code == .unknownPath)
        }
    }

    @Test func `A4: a repeated request with its Idempotency-Key gets the first answer, and one with a wrong key 400`()
        async throws
    {
        try await Self.run { server, _ in
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(string: #"{"name":"Lemgo"}"#))
            let key: HTTPHeaders = ["Idempotency-Key": "\"6F6D3A4E-0000-4000-8000-100000000001\""]
            let first = try await server.send(.POST, "/tables/team", headers: key, body: body)
            let again = try await server.send(.POST, "/tables/team", headers: key, body: body)
            #expect(first.status == 201)
            #expect(again.status == 201)
            #expect(again.text == first.text)
            #expect(again.headers.first(name: "Location") == first.headers.first(name: "Location"))
            let wrong = try await server.send(.POST, "/tables/team", headers: ["Idempotency-Key": "7"], body: body)
            #expect(wrong.status == 400)
        }
    }

    // MARK: Batches

    @Test func `D4: a batch that is not atomic does each entry by itself, and repeated nothing again`()
        async throws
    {
        try await Self.run { server, epoch in
            let batch = """
                {"atomic": false, "requests": [
                  {"method": "POST", "path": "tables/team", "body": {"name": "Lemgo"}},
                  {"method": "POST", "path": "tables/team", "body": {"name": "Kiel"}},
                  {"method": "DELETE", "path": "tables/team/1"},
                  {"method": "PATCH", "path": "tables/team/1", "ifMatch": "*", "body": {"name": "THW"}},
                  {"verb": "GET"}]}
                """
            let key: HTTPHeaders = ["Idempotency-Key": "6f6d3a4e-0000-4000-8000-100000000001"]
            let first = try await server.send(.POST, "/batch", headers: key, body: .bytes(.init(string: batch)))
            #expect(first.status == 200)
            let parsed = try JSONSerialization.jsonObject(with: Data(first.body)) as? [String: Any]
            let responses = try #require(parsed?["responses"] as? [[String: Any]])
            #expect(responses.map { $0["status"] as? Int } == [201, 409, 428, 200, 400])
            #expect((responses[0]["etag"] as? String)?.hasPrefix("\"2-\(epoch)") == true)
            #expect(responses[0]["location"] as? String == "tables/team/2")
            #expect((responses[1]["problem"] as? [String: Any])?["index"] as? Int == 1)
            #expect((responses[3]["record"] as? [String: Any])?["name"] as? String == "THW")
            let again = try await server.send(.POST, "/batch", headers: key, body: .bytes(.init(string: batch)))
            let repeated = try JSONSerialization.jsonObject(with: Data(again.body)) as? [String: Any]
            let statuses = (repeated?["responses"] as? [[String: Any]])?.map { $0["status"] as? Int }
            #expect(statuses == [201, 409, 428, 200, 400])
            let page = try await server.send(.GET, "/tables/team")
            #expect(page.text.contains(#""revision":3,"#), "\(page.text)")
        }
    }

    @Test func `D4: an atomic batch that is refused is a problem with the entry's index, and nothing more`()
        async throws
    {
        try await Self.run { server, _ in
            let batch = """
                {"requests": [{"method": "POST", "path": "tables/team", "body": {"name": "Lemgo"}},
                  {"method": "PATCH", "path": "tables/team/7", "ifMatch": "*", "body": {"name": "x"}}]}
                """
            let answer = try await server.send(.POST, "/batch", body: .bytes(.init(string: batch)))
            #expect(answer.status == 404)
            #expect(try Self.problem(answer)["index"] as? Int == 1)
            #expect(try await server.send(.GET, "/tables/team/2").status == 404)
        }
    }

    @Test func `D4: a batch beyond 1,000 entries or 8 MiB is refused with both numbers`() async throws {
        try await Self.run { server, _ in
            let entry = #"{"method":"DELETE","path":"tables/team/1"}"#
            let entries = Array(repeating: entry, count: 1_001).joined(separator: ",")
            let pad = String(repeating: " ", count: 8 << 20)
            for batch in [#"{"requests":[\#(entries)]}"#, #"{"requests":[\#(entry)]}\#(pad)"#] {
                let answer = try await server.send(.POST, "/batch", body: .bytes(.init(string: batch)))
                #expect(answer.status == 413)
                let detail = try Self.problem(answer)["detail"] as? String
                #expect(detail?.contains("1000 entries and 8 MiB") == true, "\(detail ?? "")")
            }
            let malformed = try await server.send(.POST, "/batch", body: .bytes(.init(string: #"{"requests":1}"#)))
            #expect(malformed.status == 400)
        }
    }

    // MARK: Roles

    @Test func `a reader writes nothing, and a stranger learns nothing`() async throws {
        let guarded = try await GuardedServer()
        try await guarded.bench.add("reader", role: .reader)
        try await guarded.bench.add("foreign", zone: "other")
        let reader = try await guarded.bench.device("phone", of: "reader")
        let foreign = try await guarded.bench.device("phone", of: "foreign")
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            for (token, status) in [(reader, 403), (foreign, 404)] {
                let headers: HTTPHeaders = ["Authorization": "Bearer \(token)", "If-Match": "*"]
                for table in ["notes", "secrets"] {
                    let answer = try await server.send(.DELETE, "/tables/\(table)/1", headers: headers)
                    #expect(answer.status == status)
                    #expect(try Self.problem(answer)["current"] == nil)
                }
            }
        }
    }
}
