/// The one file where a banned call may stand, and why.
///
/// This is the whole list of exceptions. An entry that is no longer used fails the tests.
struct Home {
    let path: String
    let calls: [String]
    let reason: String

    static let all = [
        Home(
            path: "Sources/TidemarkServer/SyncService.swift",
            calls: ["async"],
            reason: "the seam between the engine and the shells that serve it"
        )
    ]
}
