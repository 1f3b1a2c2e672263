import Foundation
import TidemarkCore
import Testing

@testable import Tidemark

/// D1, D2: two people with private and shared lists, each on a device of their own.
@Suite struct AccountSharingTests {
    /// Waits until a zone has these notes; the background sync brings them.
    private static func wait(for notes: [String], in zone: AccountZone) async throws {
        let statuses = zone.sync.statuses
        if try await zone.notes() == notes { return }
        for await _ in statuses where try await zone.notes() == notes { return }
    }

    @Test(.timeLimit(.minutes(30)))
    func `a list is shared by a link, synced by one stream, and left; private lists stay private`() async throws {
        try await AccountWorld.run { world in
            let anna = try await world.account("anna", try await world.credentials(of: "anna"))
            let ben = try await world.account("ben", try await world.credentials(of: "ben"))
            for account in [anna, ben] {
                try await account.signIn()
                try await account.open().note("private of \(await account.user ?? "")")
                await account.start()
            }
            let zone = try await anna.createZone(title: "Shopping")
            let secret = try await anna.invite(to: zone, as: .writer)
            let joined = try await ben.accept("https://lists.example/join#\(secret)")
            #expect(joined.zone == zone && joined.role == .writer)
            #expect(try await ben.zones(.shared).map(\.title) == ["Shopping"])
            let annas = try await anna.open(zone)
            let bens = try await ben.open(zone)
            try await annas.note("milk")
            try await Self.wait(for: ["milk"], in: bens)
            try await bens.note("bread")
            try await Self.wait(for: ["bread", "milk"], in: annas)
            #expect(try await anna.open().notes() == ["private of anna"])
            #expect(try await ben.open().notes() == ["private of ben"])
            #expect(Set(try await ben.zones().map(\.zone)) == ["~", zone])
            #expect(try await ben.members(of: zone).map(\.user).sorted() == ["anna", "ben"])
            // Ben leaves, and keeps no file of the list.
            let files = try world.databases(of: "ben").count
            try await ben.leave(zone)
            #expect(try world.databases(of: "ben").count == files - 1)
            #expect(try await ben.zones(.shared) == [])
            await anna.stop()
            await ben.stop()
        }
    }

    @Test(.timeLimit(.minutes(30)))
    func `a removed member's unsent edits are parked, and the rows leave the device`() async throws {
        try await AccountWorld.run { world in
            let anna = try await world.account("anna", try await world.credentials(of: "anna"))
            let ben = try await world.account("ben", try await world.credentials(of: "ben"))
            try await anna.signIn()
            try await ben.signIn()
            let zone = try await anna.createZone(title: "Shopping")
            _ = try await ben.accept(try await anna.invite(to: zone, as: .writer))
            let bens = try await ben.open(zone)
            try await bens.note("sent")
            try await bens.sync.sync()
            try await anna.remove("ben", from: zone)
            try await bens.note("unsent")
            let statuses = bens.sync.statuses
            await ben.start()
            for await status in statuses where status.obstacle == .accessEnded { break }
            await ben.stop()
            #expect(try await bens.notes() == [])
            #expect(try await bens.sync.conflicts().flatMap(\.records).compactMap(\.mine).joined().contains("unsent"))
            do {
                try await ben.leave(zone)
                Issue.record("left with an edit that only this device has")
            } catch let error as TidemarkError { #expect(error.code == .changesWait) }
            try await ben.leave(zone, despiteWaitingChanges: true)
            #expect(try world.databases(of: "ben") == [])
        }
    }
}
