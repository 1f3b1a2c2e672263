import Testing

@testable import Tidemark

/// What a device makes of a stream of events, and when it asks for another one.
@Suite struct ListeningTests {
    private static let stream = """
        : tidemark

        id: e:1
        data: {"a":
        data: 1}

        :
        event: bye
        retry: 2000
        data

        colour: blue

        """

    private static let items: [EventStreamReader.Item] = [
        .comment, .event(.init(id: "e:1", data: "{\"a\":\n1}")), .comment, .event(.init(name: "bye", retry: 2_000)),
    ]

    @Test(arguments: ["\n", "\r\n", "\r"]) func `events are the same in whatever pieces they arrive`(newline: String)
        throws
    {
        let bytes = Array((Self.stream + "\n").replacing("\n", with: newline).utf8)
        for size in [1, 2, 3, 7, bytes.count] {
            var reader = EventStreamReader()
            var items: [EventStreamReader.Item] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                items += try reader.take(bytes[start..<min(start + size, bytes.count)])
            }
            #expect(items == Self.items, "\(size) bytes at a time")
        }
    }

    @Test func `rule 21: an event without an end is refused, in lines or in one`() {
        for endless in ["data: ", "data: x\n"] {
            #expect(throws: EventStreamReader.TooLong.self) {
                var reader = EventStreamReader()
                for _ in 0..<1_000_000 { _ = try reader.take(endless.utf8) }
            }
        }
    }

    @Test func `rule 20: pauses grow from a second to a minute, and a good connection ends them`() {
        var pace = ListeningPace()
        let pauses = (0..<10).map { _ in pace.ended(jitter: 1) }
        let grown: [Duration] = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60].map { .seconds($0) }
        #expect(pauses == grown)
        for _ in 0..<3 { pace.heard(.alive) }
        #expect(pace.ended(jitter: 1) == .seconds(1))
    }

    @Test func `a proxy that cuts after the first words is not asked ever faster`() {
        var pace = ListeningPace()
        for expected in [1, 2, 4, 8] {
            pace.heard(.alive)
            #expect(pace.ended(jitter: 1) == .seconds(expected))
        }
    }

    @Test func `D6: who is sent away comes back when the server says, spread by chance`() {
        var pace = ListeningPace()
        for _ in 0..<5 { _ = pace.ended(jitter: 1) }
        pace.heard(.bye(retryMilliseconds: 2_000))
        #expect(pace.ended(jitter: 1.5) == .seconds(3))
        pace.heard(.bye(retryMilliseconds: nil))
        #expect(pace.ended(jitter: 0.5) == .milliseconds(500))
        pace.refused(retryAfterSeconds: 120)
        #expect(pace.ended(jitter: 0.5) == .seconds(120), "jitter never shortens it")
        for seconds in [Int.max, Int.min, -1] {
            pace.refused(retryAfterSeconds: seconds)
            #expect(pace.ended(jitter: 1) <= Pace.askedMax)
        }
        pace.heard(.bye(retryMilliseconds: Int.max))
        #expect(pace.ended(jitter: 1) == Pace.askedMax)
    }
}
