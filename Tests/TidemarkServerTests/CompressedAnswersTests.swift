import NIOCore
import Synchronization
import Testing
import TidemarkCore
import TidemarkGzip

@testable import TidemarkServer

/// An answer for many devices is compressed once, and no device gets another's answer.
@Suite struct CompressedAnswersTests {
    private static func answer(_ number: Int, length: Int = 10_000) -> [UInt8] {
        Array("{\"maxRevision\":\(number),\"changeSets\":[\"".utf8)
            + [UInt8](repeating: UInt8(ascii: "a"), count: length) + Array("\"]}".utf8)
    }

    @Test func `a hundred equal answers are compressed once`() async throws {
        let runs = Mutex(0)
        let answers = CompressedAnswers { json in
            runs.withLock { $0 += 1 }
            return JSONAnswer.compress(json)
        }
        let bodies = try await withThrowingTaskGroup(of: ByteBuffer.self) { tasks in
            for _ in 0..<100 { tasks.addTask { try await answers.compressedBody(for: Self.answer(1)) } }
            return try await tasks.reduce(into: []) { $0.append($1) }
        }
        #expect(bodies.count == 100 && Set(bodies).count == 1)
        let body = try #require(bodies.first)
        #expect(try gunzip(Array(body.readableBytesView), bytesMax: 1 << 20) == Self.answer(1))
        #expect(runs.withLock { $0 } == 1)
    }

    @Test func `answers that differ in the last byte are compressed separately`() async throws {
        let answers = CompressedAnswers()
        for last in [UInt8(ascii: " "), UInt8(ascii: "\n")] {
            let json = Self.answer(1) + [last]
            let body = try await answers.compressedBody(for: json)
            #expect(try gunzip(Array(body.readableBytesView), bytesMax: 1 << 20) == json)
        }
    }

    @Test func `over HTTP, devices with equal needs get equal bytes, others their own`() async throws {
        // Only a request at revision 1 gets this answer.
        let service = ScriptedService { _, body in
            Self.answer(String(decoding: body, as: UTF8.self).contains("1") ? 1 : 2)
        }
        try await TestServer.run(service) { server in
            let answers = try await withThrowingTaskGroup(of: (Int, [UInt8]).self) { tasks in
                for number in 0..<20 {
                    let revision = 1 + number % 2
                    tasks.addTask {
                        let answer = try await server.send(
                            .POST, "/sync", headers: ["Accept-Encoding": "gzip"],
                            body: .bytes(ByteBuffer(string: "{\"maxRevision\":\(revision)}")))
                        #expect(answer.headers.first(name: "Content-Encoding") == "gzip")
                        return (revision, answer.body)
                    }
                }
                return try await tasks.reduce(into: []) { $0.append($1) }
            }
            for revision in [1, 2] {
                let bodies = Set(answers.filter { $0.0 == revision }.map(\.1))
                let body = try #require(bodies.first)
                #expect(bodies.count == 1)
                #expect(try gunzip(body, bytesMax: 1 << 20) == Self.answer(revision))
            }
        }
    }

    @Test func `the cache evicts the least recently used answers`() {
        var latest = LatestByContent<Int>(bounds: .init(countMax: 3, bytesMax: 1_000))
        for number in 1...3 { latest.keep(number, for: [UInt8(number)]) }
        #expect(latest.value(for: [1]) == 1)
        latest.keep(4, for: [4])
        #expect(latest.value(for: [2]) == nil)
        #expect([1, 3, 4].allSatisfy { latest.value(for: [UInt8($0)]) == $0 })
        #expect(latest.count == 3 && latest.bytes == 3)
    }

    @Test func `the cache's bytes are bounded, and larger answers are not cached`() {
        var latest = LatestByContent<Int>(bounds: .init(countMax: 8, bytesMax: 100))
        latest.keep(1, for: [UInt8](repeating: 1, count: 60))
        latest.keep(2, for: [UInt8](repeating: 2, count: 40))
        #expect(latest.count == 2 && latest.bytes == 100)
        latest.keep(3, for: [UInt8](repeating: 3, count: 101))
        #expect(latest.count == 2 && latest.bytes == 100)
        latest.keep(4, for: [4])
        #expect(latest.count == 2 && latest.bytes == 41)
        latest.forget([4])
        latest.keep(5, for: [UInt8](repeating: 2, count: 40))
        #expect(latest.count == 1 && latest.bytes == 40)
        #expect(latest.value(for: [UInt8](repeating: 2, count: 40)) == 5)
    }
}
