import Testing
import Tidemark
import TidemarkCore
import TidemarkGzip
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 28: network faults on whole messages, between a real device and a real server.
    @Suite struct FaultTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
            INSERT INTO notes (text) VALUES ('first');
            """
        private static let texts = "SELECT group_concat(text) FROM (SELECT text FROM notes ORDER BY id)"

        @Test func `rule 3, case 17: a lost answer does not duplicate a new note`() async throws {
            let link = try await BrokenLink(schema: Self.schema)
            for number in 1...10 {
                try await link.edit("INSERT INTO notes (text) VALUES ('\(number)')")
                let error = try await link.sync(.answerDropped)
                #expect(error?.code == .unreachable)
            }
            try await link.whole.sync()
            #expect(try await link.served(Self.texts) == "first,1,2,3,4,5,6,7,8,9,10")
            try await link.finish()
        }

        @Test func `rules 3 13, case 18: a request that arrives twice at the same time has one effect`() async throws {
            let link = try await BrokenLink(schema: Self.schema)
            for number in 1...30 {
                try await link.edit("INSERT INTO notes (text) VALUES ('\(number)')")
                let error = try await link.sync(.doubled)
                #expect(error == nil)
            }
            #expect(link.relay.traffic.faults == 30)
            try await link.finish()
        }

        @Test func `rules 1 5, case 19: a request that later requests overtook has no effect`() async throws {
            let link = try await BrokenLink(schema: Self.schema)
            for number in 1...10 {
                try await link.edit("UPDATE notes SET text = 'a\(number)' WHERE id = 1")
                link.relay.hangUp()
                link.relay.follow(RelayPlan([.overtaken]))
                let slow = Task { try await link.broken.sync() }
                await link.relay.fault()
                // No client waits for ever; the request is still on its way.
                slow.cancel()
                _ = await slow.result
                try await link.whole.sync()
                try await link.edit("UPDATE notes SET text = 'b\(number)' WHERE id = 1")
                try await link.whole.sync()
                try await link.relay.release()
                #expect(try await link.served(Self.texts) == "b\(number)")
            }
            try await link.finish()
        }

        @Test func `rules 2 16, case 22: an edit made while an answer is delayed is sent afterwards`() async throws {
            let link = try await BrokenLink(schema: Self.schema)
            for (number, isGivenUp) in [false, true, false, true].enumerated() {
                try await link.edit("INSERT INTO notes (text) VALUES ('x\(number)')")
                link.relay.hangUp()
                link.relay.follow(RelayPlan([.stall(.down, after: number * 40)]))
                let slow = Task { try await link.broken.sync() }
                await link.relay.fault()
                try await link.edit("INSERT INTO notes (text) VALUES ('y\(number)')")
                if isGivenUp { slow.cancel() }
                try await link.relay.release()
                _ = await slow.result
            }
            try await link.whole.sync()
            #expect(try await link.served(Self.texts) == "first,x0,y0,x1,y1,x2,y2,x3,y3")
            try await link.finish()
        }

        @Test(arguments: [RelayPlan.Direction.up, .down])
        func `rules 2 3: a connection half-closed at any point takes effect exactly once`(
            direction: RelayPlan.Direction
        ) async throws {
            let link = try await BrokenLink(schema: Self.schema)
            for bytes in stride(from: 0, to: 1_000, by: 50) {
                try await link.edit("INSERT INTO notes (text) VALUES ('\(bytes)')")
                let error = try await link.sync(.halfClose(direction, after: bytes))
                #expect(error == nil || error?.recovery == .retry, "\(bytes)")
                try await link.whole.sync()
                let count = "SELECT count(*) FROM notes WHERE text = '\(bytes)'"
                #expect(try await link.served(count) == "1")
            }
            try await link.finish()
        }

        private static let replies: [(String, CannedReply)] = [
            ("a sign-in page", .captivePortal), ("a proxy without its server", .badGateway),
            ("plain text labelled gzip", .mislabelledGzip), ("nothing", .nothing),
            ("an answer without an end", .endless),
            ("less than declared", .shorterThanDeclared(Array(#"{"maxRevision":1,"#.utf8))),
            ("half a gzip stream", .truncatedGzip(gzip(Array(#"{"maxRevision":1}"#.utf8)))),
            (
                "a bomb",
                CannedReply(
                    status: "200 OK", headers: ["Content-Type: application/json", "Content-Encoding: gzip"],
                    body: gzip([UInt8](repeating: UInt8(ascii: " "), count: 8 << 20)))
            ), ("a success without content", CannedReply(status: "204 No Content")),
            ("a redirect", CannedReply(status: "302 Found", headers: ["Location: http://login.example/"])),
        ]

        @Test func `rules 10 20, cases 23 70: answers of a proxy in the server's place lose nothing`() async throws {
            var limits = Limits.standard
            limits.responseBytesMax = 1 << 20
            let link = try await BrokenLink(schema: Self.schema, limits: limits)
            try await link.edit("INSERT INTO notes (text) VALUES ('mine')")
            _ = try await link.sync(.reply(.nothing))
            let before = try await link.waiting()
            for (name, reply) in Self.replies {
                let error = try await link.sync(.reply(reply))
                #expect(error?.recovery == .retry, "\(name): \(error?.description ?? "believed")")
                #expect(try await link.waiting() == before, "\(name)")
            }
            try await link.whole.sync()
            #expect(try await link.served(Self.texts) == "first,mine")
            try await link.finish()
        }
    }
}
