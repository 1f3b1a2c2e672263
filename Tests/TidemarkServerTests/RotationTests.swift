import Foundation
import NIOConcurrencyHelpers
import Testing
@testable import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// D6: a device rotates its token, whatever is lost, and whenever its process ends.
@Suite struct RotationTests {
    private static let day: Int64 = 86_400_000

    /// The end of a process at a step of an exchange.
    private enum Kill: CaseIterable { case beforeRequest, answerLost, beforeWriting, afterWriting }

    private struct Killed: Error {}

    /// A server with a virtual clock, and the token file of a device.
    private final class World: Sendable {
        let gate: MemberGate
        let access: AccessFile
        let store: FileTokenStore
        let path: String
        let time = NIOLockedValueBox<Int64>(1_800_000_000_000)
        let kill = NIOLockedValueBox<Kill?>(nil)
        let exchanges = NIOLockedValueBox(0)
        let signIn: String

        private let folder: URL

        deinit {
            do { try FileManager.default.removeItem(at: folder) } catch {
                // A folder left behind in the system's temporary folder harms no other test.
                return
            }
        }

        init() async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
            self.folder = folder
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let access = try AccessFile(path: folder.appending(path: "access.sqlite").path)
            let time = time
            self.access = access
            gate = MemberGate(access, now: { time.withLockedValue { $0 } })
            path = folder.appending(path: "config/tokens.json").path
            store = FileTokenStore(path: path)
            let start = time.withLockedValue { $0 }
            signIn = try await access.transaction { statements in
                var generator = SeededGenerator(seed: 7)
                try Members(statements, now: start).add("anna")
                return try Tokens(statements, now: start).issue(
                    .signIn, to: "anna", duration: Tokens.signInDuration, using: &generator
                ).text
            }
        }

        /// A process of the device, begun anew.
        func process(offering token: String? = nil) throws -> TokenKeeper {
            let gate = gate
            let time = time
            let exchanges = exchanges
            let kill = kill
            return TokenKeeper(
                KilledStore(real: store, kill: kill),
                address: try ServerAddress("https://sync.example.org"),
                signIn: { _ in token },
                now: { Date(timeIntervalSince1970: Double(time.withLockedValue { $0 }) / 1_000) },
                newID: { UUID() },
                exchange: { token, device in
                    exchanges.withLockedValue { $0 += 1 }
                    if kill.withLockedValue({ $0 }) == .beforeRequest { throw CancellationError() }
                    let issued = try await gate.exchange(token, device: device)
                    if kill.withLockedValue({ $0 }) == .answerLost { throw FaultPlan.lost }
                    return .init(token: issued.token, expires: issued.expires, user: issued.user)
                }
            )
        }

        /// Sends a request: the server must accept its token.
        @discardableResult func send(_ keeper: TokenKeeper) async throws -> String {
            let lease = try await keeper.lease()
            defer { lease.lock?.release() }
            let token = try #require(lease.token)
            #expect(try await gate.caller(token: token).userID == "anna")
            return token
        }

        func pass(days: Int64) { time.withLockedValue { $0 += days * RotationTests.day } }
    }

    /// The file of a process that ends while it stores a token.
    private struct KilledStore: TokenStore {
        let real: FileTokenStore
        let kill: NIOLockedValueBox<Kill?>

        func token(of origin: String) throws -> StoredToken? { try real.token(of: origin) }

        func store(_ token: StoredToken?, of origin: String) throws {
            if kill.withLockedValue({ $0 }) == .beforeWriting { throw CancellationError() }
            try real.store(token, of: origin)
            if kill.withLockedValue({ $0 }) == .afterWriting { throw CancellationError() }
        }

        func lock(_ purpose: TokenLock.Purpose) async throws -> TokenLock? { try await real.lock(purpose) }
    }

    @Test func `a device rotates its token in the last third of its life, and not before`() async throws {
        let world = try await World()
        let keeper = try world.process(offering: world.signIn)
        let first = try await world.send(keeper)
        world.pass(days: 59)
        #expect(try await world.send(keeper) == first)
        #expect(world.exchanges.withLockedValue { $0 } == 1)
        world.pass(days: 2)
        let second = try await world.send(keeper)
        #expect(second != first)
        #expect(try await world.send(keeper) == second)
        #expect(world.exchanges.withLockedValue { $0 } == 2)
        // A year of one sync every twenty days needs no person.
        for _ in 0..<18 {
            world.pass(days: 20)
            try await world.send(try world.process())
        }
    }

    @Test func `a lost answer leaves the old token, and the next try is ten minutes later`() async throws {
        let world = try await World()
        let keeper = try world.process(offering: world.signIn)
        let first = try await world.send(keeper)
        world.pass(days: 70)
        world.kill.withLockedValue { $0 = .answerLost }
        for _ in 0..<5 { #expect(try await world.send(keeper) == first) }
        #expect(world.exchanges.withLockedValue { $0 } == 2)
        world.kill.withLockedValue { $0 = nil }
        world.time.withLockedValue { $0 += TokenKeeper.rotationPause }
        #expect(try await world.send(keeper) != first)
    }

    @Test(arguments: Kill.allCases) private func `a process that ends at any step leaves a usable token`(kill: Kill)
        async throws
    {
        let world = try await World()
        // At the sign-in: the person's token can be exchanged again.
        world.kill.withLockedValue { $0 = kill }
        await #expect(throws: (any Error).self) {
            try await world.send(try world.process(offering: world.signIn))
        }
        world.kill.withLockedValue { $0 = nil }
        let first = try await world.send(try world.process(offering: world.signIn))
        // At a rotation.
        world.pass(days: 61)
        world.kill.withLockedValue { $0 = kill }
        if kill == .answerLost {
            #expect(try await world.send(try world.process()) == first)
        } else {
            await #expect(throws: CancellationError.self) { try await world.send(try world.process()) }
        }
        world.kill.withLockedValue { $0 = nil }
        #expect(try await world.send(try world.process()) != first)
    }

    @Test func `while another process sends the old token, no process replaces it`() async throws {
        let world = try await World()
        let keeper = try world.process(offering: world.signIn)
        let first = try await world.send(keeper)
        world.pass(days: 61)
        let sending = try #require(try await world.store.lock(.sending))
        #expect(try await world.send(keeper) == first)
        #expect(world.exchanges.withLockedValue { $0 } == 1)
        sending.release()
        #expect(try await world.send(try world.process()) != first)
    }

    @Test func `requests of two processes at the same time show no replaced token`() async throws {
        let world = try await World()
        let keepers = [try world.process(offering: world.signIn), try world.process()]
        let first = try await world.send(keepers[0])
        for _ in 0..<5 {
            world.pass(days: 61)
            try await withThrowingTaskGroup { group in
                for number in 0..<40 { group.addTask { try await world.send(keepers[number % 2]) } }
                try await group.waitForAll()
            }
            // At rest nothing prevents the rotation that the crowd may have put off.
            world.time.withLockedValue { $0 += TokenKeeper.rotationPause }
            try await world.send(keepers[0])
        }
        #expect(try await world.send(keepers[1]) != first)
        let actions = try await world.access.transaction { try Audit($0, now: 0).entries(since: 0).map(\.action) }
        #expect(!actions.contains("tokenReused"))
    }

    @Test(arguments: UInt64(1)...40) func `in any order of kills, lost answers and processes, no token is shown twice`(
        seed: UInt64
    ) async throws {
        let world = try await World()
        var generator = SeededGenerator(seed: seed)
        var keepers = [try world.process(offering: world.signIn), try world.process(offering: world.signIn)]
        try await world.send(keepers[0])
        for _ in 0..<60 {
            // A token that nobody rotates for 30 days would end, as it should.
            world.pass(days: .random(in: 0...6, using: &generator))
            let index = Int.random(in: 0...1, using: &generator)
            let isFaulty = Int.random(in: 0...1, using: &generator) == 0
            world.kill.withLockedValue { $0 = isFaulty ? Kill.allCases.randomElement(using: &generator) : nil }
            do { try await world.send(keepers[index]) } catch is CancellationError {
                keepers[index] = try world.process(offering: world.signIn)
            } catch let error as TidemarkError {
                #expect(error == FaultPlan.lost)
            }
        }
        world.kill.withLockedValue { $0 = nil }
        try await world.send(keepers[0])
        let actions = try await world.access.transaction { try Audit($0, now: 0).entries(since: 0).map(\.action) }
        #expect(!actions.contains("tokenReused"))
    }

    @Test func `a dead token is reported, and a new sign-in token replaces it`() async throws {
        let world = try await World()
        let keeper = try world.process(offering: world.signIn)
        let token = try await world.send(keeper)
        try await world.gate.revoke(token)
        #expect(try await keeper.lease(afterRefusalOf: token)?.token == nil)
        let mark = await keeper.mark()
        #expect(mark != nil)
        let second = try await world.access.transaction { statements in
            var generator = SeededGenerator(seed: 8)
            return try Tokens(statements, now: 1_800_000_000_000).issue(
                .signIn, to: "anna", duration: Tokens.signInDuration, using: &generator
            ).text
        }
        try await world.send(try world.process(offering: second))
        #expect(await keeper.mark() != mark)
        try await world.send(keeper)
    }
}
