import Foundation
import NIOConcurrencyHelpers
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkGzip
import TidemarkEngine
import TidemarkTestSupport

@testable import Tidemark

/// Rule 34: an interrupted snapshot download resumes at the byte.
@Suite struct SnapshotResumeTests {
    private static let content = noise(count: 1 << 20)
    private static let file = gzip(content)

    @Test func `rule 21, case 59: a download cut three times completes, no byte is sent twice`() async throws {
        try await withRelay([Self.content]) { server, relay, files, directory in
            // Only one packet's data: when a connection ends, the HTTP client drops the bytes that
            // it has not delivered.
            relay.follow(RelayPlan(Array(repeating: .cut(.down, after: 1_500), count: 3)))
            let path = directory + "/device.sqlite"
            try await transport(relay).snapshot(zone: "main", since: nil, to: path) { _, _ in }
            #expect(try bytes(at: path) == Self.content)
            let traffic = relay.traffic
            #expect(traffic.connections == 4)
            let heads = try await heads(of: server, files[0], cuts: 3, after: 1_500)
            #expect(traffic.bytesDown == files[0].byteCount + Int64(heads))
        }
    }

    @Test func `case 59: progress continues after a cut`() async throws {
        try await withRelay([Self.content]) { _, relay, files, directory in
            relay.follow(RelayPlan(Array(repeating: .cut(.down, after: 300_000), count: 3)))
            let reports = NIOLockedValueBox<[Int64]>([])
            let path = directory + "/device.sqlite"
            try await transport(relay).snapshot(zone: "main", since: nil, to: path) { received, total in
                #expect(total == files[0].byteCount)
                reports.withLockedValue { $0.append(received) }
            }
            #expect(try bytes(at: path) == Self.content)
            #expect(relay.traffic.connections == 4)
            let progress = reports.withLockedValue { $0 }
            #expect(progress == progress.sorted())
            #expect(progress.filter { $0 == 0 }.count == 1)
            #expect(progress.last == files[0].byteCount)
        }
    }

    @Test func `case 59: if the snapshot changed after a cut, it is downloaded from the start`() async throws {
        let later = noise(count: 800_000, seed: 7)
        try await withRelay([Self.content, later]) { _, relay, files, directory in
            relay.follow(
                RelayPlan([.cut(.down, after: 500_000), .cut(.down, after: 200_000), .cut(.down, after: 200_000)]))
            let totals = NIOLockedValueBox<[Int64?]>([])
            let path = directory + "/device.sqlite"
            try await transport(relay).snapshot(zone: "main", since: nil, to: path) { _, total in
                totals.withLockedValue { if $0.last != total { $0.append(total) } }
            }
            #expect(try bytes(at: path) == later)
            #expect(relay.traffic.connections == 4)
            #expect(totals.withLockedValue { $0 } == files.map(\.byteCount))
        }
    }

    @Test(arguments: Lie.all) func `case 59: a wrong range in the answer is refused`(lie: Lie) async throws {
        try await withRelay([Self.content]) { server, relay, files, directory in
            let file = Self.file
            let cut = 1_500
            let head = try await heads(of: server, files[0], cuts: 0, after: cut)
            let start = cut - head
            let reply = lie.reply("\"\(files[0].tag)\"", file, start)
            relay.follow(RelayPlan([.cut(.down, after: cut), .reply(reply)]))
            let error = await #expect(throws: TidemarkError.self) {
                try await transport(relay).snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") {
                    _,
                    _ in
                }
            }
            #expect(error?.code == .invalidResponse)
            #expect(relay.traffic.connections == 2)
            #expect(try names(in: directory) == ["0.gz"])
        }
    }

    /// A hostile server's answers to a range request.
    struct Lie: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let reply: @Sendable (_ tag: String, _ file: [UInt8], _ start: Int) -> CannedReply

        private static func part(_ fields: [String], _ body: ArraySlice<UInt8>) -> CannedReply {
            CannedReply(
                status: "206 Partial Content", headers: ["Content-Type: application/gzip"] + fields, body: Array(body))
        }

        static let all = [
            Lie(testDescription: "an earlier part") { tag, file, start in
                let range = "bytes \(start - 1)-\(file.count - 1)/\(file.count)"
                return part(["ETag: \(tag)", "Content-Range: \(range)"], file[(start - 1)...])
            },
            Lie(testDescription: "a later part") { tag, file, start in
                let range = "bytes \(start + 1)-\(file.count - 1)/\(file.count)"
                return part(["ETag: \(tag)", "Content-Range: \(range)"], file[(start + 1)...])
            },
            Lie(testDescription: "a part that ends early") { tag, file, start in
                let range = "bytes \(start)-\(file.count - 2)/\(file.count)"
                return part(["ETag: \(tag)", "Content-Range: \(range)"], file[start...].dropLast())
            },
            Lie(testDescription: "a part of a longer file") { tag, file, start in
                let range = "bytes \(start)-\(file.count)/\(file.count + 1)"
                return part(["ETag: \(tag)", "Content-Range: \(range)"], file[start...] + [0])
            },
            Lie(testDescription: "fewer bytes than their range has") { tag, file, start in
                let range = "bytes \(start)-\(file.count - 1)/\(file.count)"
                return part(["ETag: \(tag)", "Content-Range: \(range)"], file[start...].dropLast())
            }, Lie(testDescription: "no range") { tag, file, start in part(["ETag: \(tag)"], file[start...]) },
            Lie(testDescription: "a range of no number") { tag, file, start in
                let range = "bytes \(start)-\(file.count - 1)/*"
                return part(["ETag: \(tag)", "Content-Range: \(range)"], file[start...])
            },
            Lie(testDescription: "another tag") { _, file, start in
                let range = "bytes \(start)-\(file.count - 1)/\(file.count)"
                return part(["ETag: \"e1-43\"", "Content-Range: \(range)"], file[start...])
            },
            Lie(testDescription: "no tag") { _, file, start in
                part(["Content-Range: bytes \(start)-\(file.count - 1)/\(file.count)"], file[start...])
            },
            Lie(testDescription: "the bytes of another file") { tag, file, start in
                let range = "bytes \(start)-\(file.count - 1)/\(file.count)"
                let other = [UInt8](repeating: 0xFF, count: file.count - start)
                return part(["ETag: \(tag)", "Content-Range: \(range)"], other[...])
            },
            Lie(testDescription: "several parts") { tag, file, start in
                CannedReply(
                    status: "206 Partial Content",
                    headers: ["Content-Type: multipart/byteranges; boundary=x", "ETag: \(tag)"],
                    body: Array(file[start...]))
            },
            Lie(testDescription: "more than its range, in chunks") { tag, file, start in
                let range = "bytes \(start)-\(file.count - 1)/\(file.count)"
                let body = Array(file[start...]) + [0]
                let head = """
                    HTTP/1.1 206 Partial Content\r
                    Content-Type: application/gzip\r
                    ETag: \(tag)\r
                    Content-Range: \(range)\r
                    Transfer-Encoding: chunked\r
                    \r
                    \(String(body.count, radix: 16))\r

                    """
                return CannedReply(Array(head.utf8) + body + Array("\r\n0\r\n\r\n".utf8))
            },
        ]
    }

    @Test func `a partial answer to a full request is refused`() async throws {
        try await withRelay([Self.content]) { _, relay, _, directory in
            let reply = CannedReply(
                status: "206 Partial Content",
                headers: ["Content-Type: application/gzip", "Content-Range: bytes 0-9/10"],
                body: Array(repeating: 0, count: 10))
            relay.follow(RelayPlan([.reply(reply)]))
            let error = await #expect(throws: TidemarkError.self) {
                try await transport(relay).snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") {
                    _,
                    _ in
                }
            }
            #expect(error?.code == .invalidResponse)
            let remaining = try names(in: directory)
            #expect(remaining == ["0.gz"])
        }
    }

    @Test(arguments: [
        // Each brings about 600 bytes of the file: five connections and no more.
        (RelayPlan(others: .cut(.down, after: 1_000)), 5),
        // The second brings nothing.
        (RelayPlan([.cut(.down, after: 1_000)], others: .cut(.down, after: 0)), 2),
        // Without a tag that names the bytes, a range request is impossible.
        (RelayPlan([.reply(withoutTag)]), 1),
    ]) func `rule 21: a download resumes only as long as it makes progress`(plan: RelayPlan, connections: Int)
        async throws
    {
        try await withRelay([Self.content]) { _, relay, _, directory in
            relay.follow(plan)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport(relay).snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") {
                    _,
                    _ in
                }
            }
            #expect(error?.code == .unreachable)
            #expect(relay.traffic.connections == connections)
            let remaining = try names(in: directory)
            #expect(remaining == ["0.gz"] + (connections > 1 ? ["device.sqlite.received"] : []))
        }
    }

    private static let withoutTag = CannedReply(
        status: "200 OK", headers: ["Content-Type: application/gzip", "ETag: W/\"1\""],
        body: Array(file.prefix(100_000)), declared: 200_000)

    @Test func `rule 21: a download with 1 MiB of progress for each connection may take any time`() {
        #expect(
            (Int64(1)...1_000).allSatisfy {
                SnapshotDownload.mayResume(after: $0, bytes: 1 << 20, total: $0 << 20)
            })
        // A server with another file each time, which it cuts.
        let answers = (Int64(1)...6).map { SnapshotDownload.mayResume(after: $0, bytes: 900_000, total: 900_000) }
        #expect(answers == [true, true, true, true, false, false])
        #expect(!SnapshotDownload.mayResume(after: 1, bytes: 0, total: 1 << 40))
    }

    @Test func `rule 21: the size limit covers all connections of a download together`() async throws {
        try await withRelay([Self.content]) { _, relay, _, directory in
            relay.follow(RelayPlan([.cut(.down, after: 1_500)]))
            let transport = try await transport(relay, snapshotBytesMax: 300_000)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") { _, _ in }
            }
            #expect(error?.code == .invalidResponse)
            #expect(error?.message.contains("300000") == true)
            #expect(relay.traffic.connections == 2)
            #expect(try names(in: directory) == ["0.gz"])
        }
    }

    @Test func `a slow download that is cut resumes where it stopped`() async throws {
        let content = noise(count: 30_000)
        let file = gzip(content)
        try await withTemporaryDirectory { directory in
            let answer: @Sendable (String) -> [UInt8] = { Self.part(of: file, askedFor: $0) }
            try await CannedServer.run(inPiecesOf: 7, answer: answer) { server in
                let relay = TCPRelay(targetPort: server.port)
                relay.follow(RelayPlan([.cut(.down, after: 20_000), .cut(.down, after: 1_000)]))
                let path = directory + "/device.sqlite"
                try await transport(relay).snapshot(zone: "main", since: nil, to: path) { _, _ in }
                #expect(try bytes(at: path) == content)
                #expect(relay.traffic.connections == 3)
                try await relay.stop()
            }
        }
    }

    /// A minimal server's answer to a request's head.
    private static func part(of file: [UInt8], askedFor head: String) -> [UInt8] {
        let line = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("range: bytes=") }
        let start = line.flatMap { Int($0.dropFirst("range: bytes=".count).dropLast()) } ?? 0
        var fields = ["Content-Type: application/gzip", "ETag: \"trickle\""]
        if start > 0 { fields.append("Content-Range: bytes \(start)-\(file.count - 1)/\(file.count)") }
        return CannedReply(
            status: start > 0 ? "206 Partial Content" : "200 OK", headers: fields, body: Array(file[start...])
        ).bytes
    }

    @Test func `a download that was cancelled resumes at the byte in the next call, which no byte but one repeats`()
        async throws
    {
        try await withRelay([Self.content]) { _, relay, _, directory in
            relay.follow(RelayPlan([.cut(.down, after: 1_500), .stall(.down, after: 400_000)]))
            let transport = try await transport(relay)
            let (reports, continuation) = AsyncStream.makeStream(of: Int64.self)
            let download = Task {
                try await transport.snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") {
                    received,
                    _ in continuation.yield(received)
                }
            }
            for await received in reports where received > 200_000 { break }
            #expect(try names(in: directory) == ["0.gz", "device.sqlite.part", "device.sqlite.received"])
            download.cancel()
            await #expect(throws: CancellationError.self) { try await download.value }
            #expect(try names(in: directory) == ["0.gz", "device.sqlite.received"])
            let first = NIOLockedValueBox<Int64?>(nil)
            let path = directory + "/device.sqlite"
            try await transport.snapshot(zone: "main", since: nil, to: path) { received, _ in
                first.withLockedValue { $0 = $0 ?? received }
            }
            #expect(first.withLockedValue { $0 ?? 0 } >= 200_000)
            #expect(try bytes(at: path) == Self.content)
        }
    }

    @Test(arguments: [0, 100, 40_000, 150_000]) func `damaged bytes of an earlier process cost a whole download`(
        place: Int
    ) async throws {
        try await withRelay([Self.content]) { _, relay, files, directory in
            let transport = try await transport(relay)
            let path = directory + "/device.sqlite"
            try await transport.snapshot(zone: "main", since: nil, to: path) { _, _ in }
            var stored = Array(try bytes(at: path + ".received").prefix(500_000))
            stored[place] ^= 0xFF
            try Data(stored).write(to: URL(fileURLWithPath: path + ".received"))
            try await transport.snapshot(zone: "main", since: nil, to: path) { _, _ in }
            #expect(try bytes(at: path) == Self.content)
        }
    }

    @Test func `a whole download that is repeated ends with the file that the server has by then`()
        async throws
    {
        let later = noise(count: 800_000, seed: 7)
        try await withRelay([Self.content, Self.content, later]) { _, relay, _, directory in
            let transport = try await transport(relay)
            let path = directory + "/device.sqlite"
            for expected in [Self.content, Self.content, later] {
                try await transport.snapshot(zone: "main", since: nil, to: path) { _, _ in }
                #expect(try bytes(at: path) == expected)
            }
        }
    }

    // MARK: Parts

    private func transport(_ relay: TCPRelay, snapshotBytesMax: Int = 1 << 30) async throws -> HTTPTransport {
        try HTTPTransport(url: "http://127.0.0.1:\(try await relay.start())", snapshotBytesMax: snapshotBytesMax)
    }

    /// A real server behind a relay; several snapshots are served one for each request.
    private func withRelay(
        _ contents: [[UInt8]],
        body:
            @Sendable (_ server: TestServer, _ relay: TCPRelay, _ files: [SnapshotFile], _ directory: String)
            async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let files = try contents.enumerated().map { index, content in
                try snapshotFile(gzip(content), in: directory, name: "\(index).gz", revision: Int64(index))
            }
            try await TestServer.run(ScriptedService(snapshots: files)) { server in
                let relay = TCPRelay(targetPort: server.port)
                try await body(server, relay, files, directory)
                try await relay.stop()
            }
        }
    }

    /// The bytes of all response heads while a file is downloaded over connections that are cut
    /// after a number of bytes each.
    private func heads(of server: TestServer, _ file: SnapshotFile, cuts: Int, after: Int) async throws -> Int {
        var sum = 0
        var offset = 0
        for _ in 0...cuts {
            var headers: HTTPHeaders = [:]
            if offset > 0 { headers = ["Range": "bytes=\(offset)-", "If-Range": "\"\(file.tag)\""] }
            let answer = try await server.send(.GET, "/snapshot", headers: headers)
            let line = offset > 0 ? "HTTP/1.1 206 Partial Content" : "HTTP/1.1 200 OK"
            let fields = answer.headers.map { "\r\n\($0.name): \($0.value)" }.joined()
            let head = (line + fields + "\r\n\r\n").utf8.count
            sum += head
            offset += after - head
        }
        return sum
    }
}
