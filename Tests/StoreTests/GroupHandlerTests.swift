import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Rule 31: several devices' requests in one transaction get the answers that they would get alone.
@Suite(.serialized) struct GroupHandlerTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE CHECK (text <> ''));
        INSERT INTO notes VALUES (1, 'first');
        """

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    private static func request(_ number: Int, text: String) -> String {
        #"{"maxRevision":1,"device":"\#(number)","changeSets":[{"id":"\#(id(number))","notes":{"create":[-1],"#
            + #""attributes":{"-1":{"text":"\#(text)"}}}}]}"#
    }

    /// A store whose first transaction waits until the given number of requests has arrived.
    private struct Crowd {
        let zone: Zone
        let latch = Latch()
        let arrivals = ArrivalWatch()

        init(_ store: Store, limits: Limits = .standard) async throws {
            zone = try await Zone(
                store, GroupHandlerTests.schema, limits: limits, now: latch.passing,
                metrics: ServerMetrics(factory: arrivals))
        }

        /// Sends bodies so that they arrive in their order while a first request is in flight.
        func together(_ bodies: [String]) async throws -> [Result<String, any Error>] {
            latch.close()
            let first = Task { try await zone.service.sync(zone: "main", body: [UInt8](Self.pull.utf8)) }
            await latch.somebodyWaits()
            await arrivals.next()
            var tasks: [Task<String, any Error>] = []
            for body in bodies {
                let task = Task {
                    let answer = try await zone.service.sync(zone: "main", body: Array(body.utf8))
                    return String(decoding: answer, as: UTF8.self)
                }
                tasks.append(task)
                await arrivals.next()
            }
            latch.open()
            _ = try await first.value
            var results: [Result<String, any Error>] = []
            for task in tasks { results.append(await task.result) }
            return results
        }

        /// A pull that only the store answers, because of its space.
        private static let pull = #"{"maxRevision":1,"changeSets": []}"#
    }

    @Test(arguments: Store.all) func `rule 2: a bad request in a group does not affect the other requests`(store: Store)
        async throws
    {
        let crowd = try await Crowd(store)
        let results = try await crowd.together([
            Self.request(1, text: "one"), #"no JSON at all, but a "lap""#, Self.request(2, text: "two"),
            // Refused at its second change set, after the first was written.
            #"{"maxRevision":1,"device":"3","changeSets":[{"id":"\#(Self.id(30))","notes":{"create":[-1],"#
                + #""attributes":{"-1":{"text":"three"}}}},{"id":"\#(Self.id(31))","notes":{"create":[-2],"#
                + #""attributes":{"-2":{"text":""}}}}]}"#, Self.request(4, text: "four"),
        ])
        let codes = results.map { result -> String in
            switch result {
            case .success: "ok"
            case .failure(let error): (error as? TidemarkError)?.code.rawValue ?? "\(error)"
            }
        }
        #expect(codes == ["ok", "malformedRequest", "ok", "constraintViolated", "ok"])
        #expect(try await crowd.zone.revision() == 4)
        let answer = try Answer(try await crowd.zone.bytes(#"{"maxRevision":1}"#))
        let texts = answer.changeSets.compactMap { set in
            set.ids("create", "notes")?.first.flatMap { set.attributes("notes", "\($0)")?["text"] as? String }
        }
        #expect(texts == ["one", "two", "four"])
    }

    @Test(arguments: Store.all) func `requests commit in order of arrival, and each sees the earlier ones`(store: Store)
        async throws
    {
        let crowd = try await Crowd(store)
        let results = try await crowd.together((1...20).map { Self.request($0, text: "n\($0)") })
        for (index, result) in results.enumerated() {
            let answer = try Answer(Array(try result.get().utf8))
            #expect(answer.revisions.compactMap(\.self) == Array(2...(index + 2)))
        }
    }

    @Test(arguments: Store.all) func `of two claims of one unique value in a group, the first succeeds`(store: Store)
        async throws
    {
        let crowd = try await Crowd(store)
        let results = try await crowd.together([Self.request(1, text: "mine"), Self.request(2, text: "mine")])
        let answers = try results.map { try Answer(Array($0.get().utf8)) }
        #expect(answers[0].changeSets.map(\.isConflict) == [false])
        #expect(answers[1].changeSets.last?.isConflict == true)
        #expect(answers[1].changeSets.last?.rules == ["unique"])
    }

    @Test(arguments: Store.all) func `rule 3, case 18: a request that is twice in a group makes one revision`(
        store: Store
    ) async throws {
        let crowd = try await Crowd(store)
        let body = Self.request(1, text: "once")
        let results = try await crowd.together([body, body, body])
        let texts = try results.map { try $0.get() }
        #expect(texts[0] == texts[1])
        #expect(texts[0] == texts[2])
        #expect(try await crowd.zone.revision() == 2)
    }

    @Test(arguments: Store.all) func `oversized answers end a group early, and every request is answered`(store: Store)
        async throws
    {
        var limits = Limits.standard
        limits.groupBytesMax = 600
        let crowd = try await Crowd(store, limits: limits)
        let results = try await crowd.together((1...9).map { Self.request($0, text: "n\($0)") })
        for result in results { _ = try result.get() }
        #expect(try await crowd.zone.revision() == 10)
    }
}
