import Foundation
import TidemarkCore
import Testing

@testable import Tidemark

/// B9: the process ends at each durable step of adopting, replacing and signing out.
@Suite struct AccountKillTests {
    /// Runs `story` once for each step, until it ends without a kill.
    private static func atEachStep(_ story: (_ device: String, _ kill: Int) async throws -> Bool) async throws {
        var kill = 1
        while try await story("phone \(kill)", kill) { kill += 1 }
        // The last run had no kill; a story without steps would prove nothing.
        #expect(kill > 1)
    }

    /// Returns whether the process was ended.
    private static func isKilled(_ body: () async throws -> Void) async throws -> Bool {
        do {
            try await body()
            return false
        } catch is AccountWorld.Killed { return true }
    }

    @Test func `adoption: the edits are nobody's or the user's, and arrive once`() async throws {
        try await AccountWorld.run { world in
            let credentials = try await world.credentials(of: "anna")
            var expected: [String] = []
            try await Self.atEachStep { device, kill in
                let text = "of \(device)"
                expected.append(text)
                let first = try await world.account(device, credentials)
                try await first.open().note(text)
                let killed = try await Self.isKilled {
                    let second = try await world.account(device, credentials, kill: kill)
                    try await second.open()
                    try await second.signIn()
                }
                let third = try await world.account(device, credentials)
                if await third.user == nil { try await third.signIn() }
                let zone = try await third.open()
                try await zone.sync.sync()
                #expect(try await zone.notes().contains(text))
                #expect(try await zone.sync.status().user == "anna")
                #expect(try world.databases(of: device).count == 1)
                return killed
            }
            #expect(try await world.notesOfNewDevice(of: "anna") == expected.sorted())
        }
    }

    @Test func `a sign-out that failed in the middle ends before anybody signs in, and removes what it promised`()
        async throws
    {
        try await AccountWorld.run { world in
            let credentials = try await world.credentials(of: "anna")
            let first = try await world.account("phone", credentials)
            try await first.signIn()
            try await first.open()
            // The first step stores that the user is leaving.
            let second = try await world.account("phone", credentials, kill: 2)
            let isKilled = try await Self.isKilled { try await second.signOut(.remove) }
            #expect(isKilled)
            let error = await #expect(throws: TidemarkError.self) { try await second.signIn() }
            #expect(error?.code == .signInNeeded)
            let zone = try await second.open()
            try await second.signOut(.stay)
            #expect(try world.databases(of: "phone").isEmpty)
            #expect(await second.user == nil)
            await #expect(throws: (any Error).self) { try await zone.notes() }
        }
    }

    @Test func `sign-out: the files stay whole, or are gone, and the next start finishes it`() async throws {
        try await AccountWorld.run { world in
            let credentials = try await world.credentials(of: "anna")
            try await Self.atEachStep { device, kill in
                let first = try await world.account(device, credentials)
                try await first.signIn()
                let zone = try await first.open()
                try await zone.note("of \(device)")
                try await zone.sync.sync()
                let shared = try await first.createZone(title: device)
                try await first.open(shared).sync.sync()
                let killed = try await Self.isKilled {
                    let second = try await world.account(device, credentials, kill: kill)
                    try await second.signOut(.remove)
                }
                let third = try await world.account(device, credentials)
                if await third.user == nil {
                    #expect(try world.databases(of: device) == [])
                } else {
                    #expect(await third.isSignedIn)
                    #expect(try await third.open().notes().contains("of \(device)"))
                    #expect(try world.databases(of: device).count == 2)
                }
                return killed
            }
        }
    }

    @Test func `replacement: the user's file is there until the other one has taken its place`() async throws {
        try await AccountWorld.run { world in
            let person = try await world.person()
            let credentials = person.credentials
            try await Self.atEachStep { device, kill in
                let first = try await world.account(device, credentials)
                try await first.open().note("early on \(device)")
                try await first.signIn()
                let own = try await first.open()
                try await own.sync.sync()
                try await person.passDevice(first)
                let second = try await world.account(device, credentials)
                try await second.open().note("later on \(device)")
                let killed = try await Self.isKilled {
                    let third = try await world.account(device, credentials, kill: kill)
                    try await third.signIn(earlierEdits: .adopted)
                }
                let last = try await world.account(device, credentials)
                if await last.user == nil { try await last.signIn(earlierEdits: .adopted) }
                let zone = try await last.open()
                try await zone.sync.sync()
                let notes = try await zone.notes()
                #expect(notes.contains("early on \(device)") && notes.contains("later on \(device)"))
                #expect(try world.databases(of: device).count == 1)
                return killed
            }
        }
    }
}
