import AsyncHTTPClient
import Foundation
import HTTPTypes
import NIOCore
import NIOHTTP1
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// A zone `main` with members, and tokens of every kind that must not open it.
final class GuardedServer: Sendable {
    let cluster: Cluster
    let users: AccessFile
    /// The zone `main`, and zones that are made while the server runs.
    let service: ZoneDirectory
    let bench: AccessBench
    /// The file of users.
    let path: String

    init() async throws {
        cluster = try Cluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
            seed: "INSERT INTO notes VALUES (1, 'first')")
        path = cluster.folder.appending(path: "access.sqlite").path
        users = try AccessFile(path: path)
        service = ZoneDirectory(main: cluster.store, folder: cluster.folder.appending(path: "zones"))
        bench = AccessBench(users, host: service)
    }

    /// The routes of the server, and of one without users.
    func routes(gate: (any AccessGate)? = nil) -> [Route] {
        let gate = gate ?? bench.gate
        return TidemarkServerApplication(service: service, gate: gate, logger: LogLines().logger)
            .routes(Readiness(), AccessWatch(gate)).routes
    }

    /// A sender whom the server must refuse, and the header with which the sender tries.
    struct Stranger: Sendable {
        let name: String
        let authorization: String?
        /// The status of a refusal on a route for members, for administrators, for users, and for holders of a token;
        /// nil if the sender is one of these.
        var statuses: (members: Int, administrators: Int, users: Int?, holders: Int?) = (401, 401, 401, 401)
    }

    /// Senders of every kind that the zone `main` must not answer.
    func strangers() async throws -> [Stranger] {
        try await bench.add("anna", "dora", role: .owner)
        try await bench.add("foreign", zone: "other")
        try await bench.add("former")
        try await bench.members { try $0.set(nil, of: "former", in: "main") }
        let expired = try await bench.issue(.administrator, to: "anna", duration: 1)
        bench.advance(by: 1)
        let revoked = try await bench.device("revoked", of: "anna")
        try await bench.gate.revoke(revoked)
        let disabled = try await bench.device("disabled", of: "dora")
        let disabledRoot = try await bench.issue(.administrator, to: "dora")
        for token in [disabled, disabledRoot] { _ = try await bench.user(token) }
        try await bench.members { try $0.set("dora", isDisabled: true) }
        let root = try await bench.issue(.administrator, to: "anna")
        _ = try await bench.user(root)
        let foreign = try await bench.device("foreign", of: "foreign")
        let former = try await bench.device("former", of: "former")
        // Shown once, so that the requests of a test change nothing.
        for token in [foreign, former] { _ = try await bench.user(token) }
        let unknown = "_23456789_" + String(repeating: "z", count: 52)
        let bad: [(String, String?)] = [
            ("nobody", nil), ("empty", ""), ("no token", "Bearer"), ("blank", "Bearer  "), ("basic", "Basic YTpi"),
            ("malformed", "Bearer hunter2"), ("forged", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0."),
            ("unknown device", "Bearer tmd\(unknown)"), ("unknown administrator", "Bearer tma\(unknown)"),
            ("unknown sign-in", "Bearer tmu\(unknown)"), ("huge", "Bearer " + String(repeating: "z", count: 9_000)),
            ("twice", "Bearer \(foreign), Bearer \(foreign)"), ("expired", "Bearer \(expired)"),
            ("revoked", "Bearer \(revoked)"), ("disabled", "Bearer \(disabled)"),
            ("disabled administrator", "Bearer \(disabledRoot)"),
        ]
        return bad.map { Stranger(name: $0.0, authorization: $0.1) } + [
            Stranger(name: "foreign", authorization: "Bearer \(foreign)", statuses: (404, 403, nil, nil)),
            Stranger(name: "former", authorization: "Bearer \(former)", statuses: (403, 403, nil, nil)),
            // It reads the metrics, although its user owns the zone.
            Stranger(name: "administrator", authorization: "Bearer \(root)", statuses: (403, 200, 403, 403)),
        ]
    }
}

extension TestServer {
    /// The status and the headers of an answer, whose body is not read.
    func head(_ method: HTTPMethod, _ path: String, authorization: String?, body: String? = nil) async throws -> Int {
        var request = HTTPClientRequest(url: url + path)
        request.method = method
        if let authorization { request.headers.add(name: "Authorization", value: authorization) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        return Int(try await HTTPClient.shared.execute(request, timeout: .minutes(10)).status.code)
    }

    /// The whole answer to a request, as bytes on the wire, without the line of the time.
    ///
    /// The request says that it will upload a megabyte, and waits for permission.
    func wire(_ method: String, _ path: String, authorization: String?) async throws -> String {
        let header = authorization.map { "Authorization: \($0)\r\n" } ?? ""
        let upload = method == "POST" ? "Content-Length: 1000000\r\nExpect: 100-continue\r\n" : ""
        let answer = try await exchange(
            "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(header)\(upload)\r\n",
            until: method == "HEAD" ? "\r\n\r\n" : "}\n")
        return answer.replacing(/Date: [^\r]*\r\n/, with: "")
    }
}
