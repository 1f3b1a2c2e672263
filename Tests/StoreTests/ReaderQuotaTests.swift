import Foundation
import StoreTestSupport
import Synchronization
import Testing
import TidemarkCore
import TidemarkEngine

/// One user's long questions leave readers to everybody else, and every write goes on.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ReaderQuotaTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        INSERT INTO team VALUES (1, 'Kiel'), (2, 'Lemgo');
        """

    /// The number of questions that a store began to answer.
    private final class Questions: Sendable {
        private let count = Mutex(0)

        var begun: Int { count.withLock { $0 } }

        func begin() { count.withLock { $0 += 1 } }
    }

    private static func access(_ user: String) -> ZoneAccess {
        var access = ZoneAccess(zone: "main", caller: user.isEmpty ? .anonymous : .user(.init(id: user)), role: .writer)
        access.network = "192.0.2.1"
        return access
    }

    @Test(arguments: Store.all, ["anna", ""])
    func `thirty questions of one sender that go on and on keep neither a reader nor a writer waiting`(
        store: Store, sender: String
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let begun = AsyncStream.makeStream(of: Void.self)
        let questions = Questions()
        let end = DispatchSemaphore(value: 0)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for _ in 1...30 {
                tasks.addTask {
                    try await zone.service.read(
                        Self.access(sender),
                        ZoneQuestion { _ in
                            questions.begin()
                            begun.continuation.yield()
                            end.wait()
                        }
                    )
                }
            }
            for await _ in begun.stream { break }
            let revision = try await zone.service.read(Self.access("ben"), ZoneQuestion { $0.state.revision })
            #expect(revision == 1)
            _ = try await zone.sync(at: 1, #"{"team":{"update":[1],"attributes":{"1":{"name":"Kiel!"}}}}"#)
            #expect(try await zone.service.digest(Self.access("ben")).revision == 2)
            #expect(questions.begun <= 2)
            for _ in 1...30 { end.signal() }
            try await tasks.waitForAll()
        }
        #expect(questions.begun == 30)
    }

    @Test(arguments: Store.all)
    func `twelve digests at once are one digest, and the next one has the rows that a program wrote meanwhile`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let digests = try await withThrowingTaskGroup(of: ZoneDigest.self) { tasks in
            for _ in 1...12 { tasks.addTask { try await zone.service.digest(Self.access("anna")) } }
            return try await tasks.reduce(into: Set<ZoneDigest>()) { $0.insert($1) }
        }
        #expect(digests.count == 1)
        try await zone.writeOutside("UPDATE team SET name = 'Kiel!' WHERE id = 1")
        let next = try await zone.service.digest(Self.access("anna"))
        #expect(next.hash != digests.first?.hash)
    }
}
