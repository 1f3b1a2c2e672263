/// The one file where a banned call may stand, and why.
///
/// This is the whole list of exceptions. An entry that is no longer used fails the tests.
struct Home {
    let path: String
    let calls: [String]
    let reason: String

    static let all = [
        Home(
            path: "Sources/TidemarkEngine/SyncService.swift", calls: ["async", "await"],
            reason: "the seam between the engine and the shells that serve it"),
        Home(
            path: "Sources/Tidemark/Apply/RoundContext.swift", calls: ["DrainCapture("],
            reason: "the one way into the outbox, with the zone's policies and the moment of its transaction"),
        Home(
            path: "Sources/TidemarkEngine/FanOut/FanOut.swift", calls: ["async", "await"],
            reason: "the shell in which listeners wait; what they are told is Audience's to say"),
        Home(
            path: "Sources/TidemarkEngine/Access/AccessDatabase.swift", calls: ["async"],
            reason: "the seam between the rules of access and the stores of users"),
        Home(
            path: "Sources/TidemarkEngine/Access/AccessGate.swift", calls: ["async", "await"],
            reason: "the seam between the routes and the decision about a sender"),
        Home(
            path: "Sources/TidemarkEngine/Access/TokenIssuer.swift", calls: ["async"],
            reason: "the seam between the routes and the exchange of tokens"),
        Home(
            path: "Sources/TidemarkEngine/Access/MemberGate.swift",
            calls: ["async", "await", "SystemRandomNumberGenerator"],
            reason: "the shell that asks the store of users; Tokens and Members decide, TokenState judges"),
        Home(
            path: "Sources/TidemarkEngine/Access/MemberGateTokens.swift", calls: ["async", "await"],
            reason: "the part of the same shell that exchanges tokens"),
        Home(
            path: "Sources/TidemarkEngine/Access/ZoneHost.swift", calls: ["async"],
            reason: "the seam between the rules of access and a store that makes zones"),
        Home(
            path: "Sources/TidemarkEngine/Access/ZoneRegistry.swift",
            calls: ["async", "await", "SystemRandomNumberGenerator"],
            reason: "the shell that asks the store of users; Zones, Members and Invitations decide"),
        Home(
            path: "Sources/TidemarkPostgres/Zones/MakeZone.swift", calls: ["UUID()"],
            reason: "a zone is made with a random epoch at a time that no caller knows"),
        Home(
            path: "Sources/TidemarkEmbedded/Zones/ZoneFiles.swift", calls: ["UUID()"],
            reason: "a zone's file is made with a random epoch at a time that no caller knows"),
        Home(
            path: "Sources/TidemarkServer/Records/WriteRoute.swift", calls: ["UUID()"],
            reason: "the random id of a change set whose client names none"),
        Home(
            path: "Sources/TidemarkEngine/Access/MemberGateReads.swift", calls: ["async", "await"],
            reason: "the part of the same shell that only reads"),
        Home(
            path: "Sources/TidemarkEngine/Access/TokenVerifier.swift", calls: ["async"],
            reason: "the seam to identity providers, whose keys are fetched over the network"),
        Home(
            path: "Sources/TidemarkServer/Access/RequestRates.swift", calls: [".random("],
            reason: "the jitter of pauses; RateLimiter decides"),
        Home(
            path: "Sources/TidemarkServer/Events/ListenerService.swift", calls: ["Task.sleep"],
            reason: "the one timer of all listeners"),
        Home(
            path: "Sources/TidemarkEngine/FanOut/FanOut.swift", calls: ["async", "await", "Task {"],
            reason: "the shell that tells listeners of commits; Audience says what"),
        Home(
            path: "Sources/TidemarkEngine/Pull/Pulls.swift", calls: ["async", "await"],
            reason: "the shell that loads recent change sets; RecentChangeSets and PullAnswer decide"),
        Home(
            path: "Sources/TidemarkEngine/Pull/SharedChangeSets.swift", calls: ["async"],
            reason: "the seam between the engine and a cache that servers share"),
        Home(
            path: "Sources/TidemarkEngine/Readers/ReaderPlaces.swift", calls: ["async", "await"],
            reason: "the places in which readers wait for a connection"),
        Home(
            path: "Sources/TidemarkEngine/Readers/SharedDigest.swift", calls: ["async", "await", "Task {"],
            reason: "one computation for all callers who ask at the same time"),
        Home(
            path: "Sources/TidemarkEngine/Snapshots/SnapshotCache.swift", calls: ["async", "await", "Task {"],
            reason: "the shell that builds snapshots; SnapshotShelf decides"),
        Home(
            path: "Sources/TidemarkEngine/GroupCommit/GroupCommitter.swift",
            calls: ["async", "await", "Task {", "ContinuousClock"],
            reason: "the shell that gathers requests; GroupQueue decides, CommitGroup answers"),
        Home(
            path: "Sources/Tidemark/Session/SystemEnvironment.swift", calls: ["Date()", "UUID()", ".random("],
            reason: "the one place where a device takes time and randomness from the system"),
        Home(
            path: "Sources/Tidemark/Status/ChangeSignal.swift", calls: ["Task.sleep"],
            reason: "the timer of all that wait for a change: streams of state and the background loop"),
        Home(
            path: "Sources/Tidemark/Transport/SnapshotDownload.swift", calls: ["Task.sleep"],
            reason: "the pause that the server asks for while it writes a snapshot"),
        Home(
            path: "Sources/Tidemark/Session/OutsideCommits.swift", calls: ["Task.sleep"],
            reason: "the pause between two looks: SQLite wakes nobody when another program commits"),
        Home(
            path: "Sources/Tidemark/Account/AccountListening.swift", calls: ["Task.sleep"],
            reason: "the timer behind the list of zones"),
        Home(
            path: "Sources/Tidemark/Session/Listening.swift", calls: ["Task.sleep"],
            reason: "the pause before a connection that ended is made again"),
        Home(
            path: "Sources/TidemarkCore/Merge/HybridClock.swift", calls: ["Date()"],
            reason: "the one place where the server takes the time from the system"),
        Home(
            path: "Sources/TidemarkDev/Relay.swift", calls: ["Task.sleep"],
            reason: "waits for the signal that ends the process"),
        Home(
            path: "Sources/TidemarkCLI/AccessPlace.swift", calls: ["SystemRandomNumberGenerator"],
            reason: "the secrets of tokens that an operator issues"),
        Home(
            path: "Sources/TidemarkCLI/Commands/Backup.swift", calls: ["UUID()"],
            reason: "the random name of the folder in which a copy is made"),
        Home(
            path: "Sources/TidemarkCLI/OpenDevice.swift", calls: ["UUID()"],
            reason: "the random name of the folder in which a file on a read-only disk is read"),
        Home(
            path: "Sources/TidemarkCLI/Commands/Serve.swift", calls: ["UUID()"],
            reason: "the random epoch of a new history"),
        Home(
            path: "Sources/TidemarkBench/Parts/Pause.swift", calls: ["Task.sleep"],
            reason: "the pause between two commits whose way is followed, or after a cut"),
        Home(
            path: "Sources/TidemarkBench/Parts/RandomID.swift", calls: ["UUID()"],
            reason: "folders, and the random epochs of what is measured"),
        Home(
            path: "Sources/TidemarkRedis/RedisCache.swift", calls: ["DispatchQueue"],
            reason: "the thread on which Redis is waited for, and how long that may take"),
        Home(
            path: "Sources/TidemarkPostgres/Connection/PostgresPool.swift", calls: ["DispatchQueue"],
            reason: "the thread on which a connection waits for PostgreSQL"),
        Home(
            path: "Tests/StoreTestSupport/OtherProgram.swift", calls: ["DispatchQueue"],
            reason: "the thread on which another program waits for its database"),
        Home(
            path: "Tests/TidemarkPostgresTests/Support/TestRedis.swift", calls: ["DispatchQueue"],
            reason: "the thread on which a test waits for its Redis"),
        Home(
            path: "Sources/TidemarkTestSupport/Cluster.swift", calls: ["UUID()"],
            reason: "a folder and an epoch of its own for every test"),
    ]
}
