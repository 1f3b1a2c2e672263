import Testing

@testable import Tidemark

/// A device's parsing of an event stream, and its pauses before the next connection.
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

    @Test(arguments: ["\n", "\r\n", "\r"]) func `events parse alike, however the stream is split`(newline: String)
        throws
    {
        let bytes = Array((Self.stream + "\n").replacing("\n", with: newline).utf8)
        for size in [1, 2, 3, 7, bytes.count] {
            var reader = EventStreamReader()
            var items: [EventStreamReader.Item] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                items += try reader.parse(bytes[start..<min(start + size, bytes.count)])
            }
            #expect(items == Self.items, "\(size) bytes at a time")
        }
    }

    @Test func `rule 21: an endless event is refused, in many lines or in one`() {
        for endless in ["data: ", "data: x\n"] {
            #expect(throws: EventStreamReader.TooLong.self) {
                var reader = EventStreamReader()
                for _ in 0..<1_000_000 { _ = try reader.parse(endless.utf8) }
            }
        }
    }

    @Test func `rule 20: pauses grow from a second to a minute, and a good connection resets them`() {
        var pace = Pace.listening
        let pauses = (0..<10).map { _ in pace.pauseAfterConnection(jitter: 1) }
        let grown: [Duration] = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60].map { .seconds($0) }
        #expect(pauses == grown)
        for _ in 0..<3 { pace.recordEvent(.alive) }
        #expect(pace.pauseAfterConnection(jitter: 1) == .seconds(1))
    }

    @Test func `a proxy that cuts the stream after its first bytes still makes pauses grow`() {
        var pace = Pace.listening
        for expected in [1, 2, 4, 8] {
            pace.recordEvent(.alive)
            #expect(pace.pauseAfterConnection(jitter: 1) == .seconds(expected))
        }
    }

    @Test func `D6: a rejected listener waits for the server's time plus a random share`() {
        var pace = Pace.listening
        for _ in 0..<5 { _ = pace.pauseAfterConnection(jitter: 1) }
        pace.recordEvent(.bye(retryMilliseconds: 2_000))
        #expect(pace.pauseAfterConnection(jitter: 1.5) == .seconds(3))
        pace.recordEvent(.bye(retryMilliseconds: nil))
        #expect(pace.pauseAfterConnection(jitter: 0.5) == .milliseconds(500))
        #expect(
            pace.pauseAfterConnection(retryAfterSeconds: 120, jitter: 0.5) == .seconds(120), "jitter never shortens it")
        for seconds in [Int.max, Int.min, -1] {
            #expect(pace.pauseAfterConnection(retryAfterSeconds: seconds, jitter: 1) <= Pace.requestedPauseMax)
        }
        pace.recordEvent(.bye(retryMilliseconds: Int.max))
        #expect(pace.pauseAfterConnection(jitter: 1) == Pace.requestedPauseMax)
    }
}
