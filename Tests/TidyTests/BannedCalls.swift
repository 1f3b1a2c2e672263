/// Something that may be called in few places, and what to write elsewhere.
struct Ban: CustomStringConvertible {
    let call: String
    let instead: String

    /// A word among the arguments that makes the call harmless.
    var unlessGiven: String?

    var description: String { call }

    /// Bans in all sources: what cannot be replayed, cannot be tested, or ends the process.
    static let everywhere = [
        Ban(call: "Date()", instead: "take the time as an argument"),
        Ban(call: "Date.now", instead: "take the time as an argument"),
        Ban(call: "UUID()", instead: "take the id as an argument"),
        Ban(call: ".random(", instead: "`.random(in:using:)` on a given one", unlessGiven: "using"),
        Ban(call: "SystemRandomNumberGenerator", instead: "take the generator as an argument"),
        Ban(call: "Task.sleep", instead: "wait for the event, or sleep on the injected clock"),
        Ban(call: "DispatchQueue", instead: "an actor, or the database's own queue"),
        Ban(call: "print(", instead: "the command line's one output file, or a `Logger`"),
        Ban(call: "Swift.print(", instead: "the command line's one output file, or a `Logger`"),
        Ban(call: "try!", instead: "`try`, and let the caller decide"),
        Ban(call: "fatalError(", instead: "throw a `TidemarkError`"),
        Ban(call: "DrainCapture(", instead: "`RoundContext.drain`, the one way into the outbox"),
    ]

    /// Bans in the synchronous core, so that a simulation replays every run from its seed.
    static let inCore =
        ["ContinuousClock", "SuspendingClock", "DispatchTime", "clock_gettime(", "gettimeofday("].map {
            Ban(call: $0, instead: "take the time as an argument")
        }
        + ["arc4random(", "getentropy(", "SymmetricKey("].map {
            Ban(call: $0, instead: "take the random bits as an argument")
        }
        + ["async", "await", "Task {", "Task(", "Task.detached", "withTaskGroup("].map {
            Ban(call: $0, instead: "the core is synchronous: move it to a shell")
        }
        + ["URLSession", "HTTPClient", "AsyncHTTPClient", "NIOCore", "NIOPosix"].map {
            Ban(call: $0, instead: "the core has no network: move it to a shell")
        }

    /// Bans in the core's SQL, which has a clock and a generator of its own.
    static let inCoreSQL = ["randomblob(", "random()", "'now'", "unixepoch()", "CURRENT_TIMESTAMP"].map {
        Ban(call: $0, instead: "bind the value as an argument")
    }

    /// Bans in tests, which may use a clock and random ids but not wait by guess.
    static let inTests = everywhere.filter {
        ["Task.sleep", "DispatchQueue", "print(", "try!", "fatalError("].contains($0.call)
    }
}

/// The folders of the synchronous core: all rules of the protocol, and nothing that waits.
let synchronousCore =
    ["TidemarkCore", "TidemarkSQL", "TidemarkEngine"].map { "Sources/\($0)/" }
    + ["Capture", "Outbox", "Apply", "Identity", "Conflicts", "Join"].map { "Sources/Tidemark/\($0)/" }

/// Reports calls outside their home.
func bannedCalls(_ path: String, _ text: SwiftText, homes: [Home] = Home.all) -> [Finding] {
    usedBans(path, text).filter { use in !homes.contains { $0.path == path && $0.calls.contains(use.ban.call) } }.map {
        use in Finding(path, use.line, "`\(use.ban.call)` has no home here; instead: \(use.ban.instead)")
    }
}

/// Reports allowances that nobody uses any more.
func deadHomes(_ homes: [Home], in files: [(path: String, text: SwiftText)]) -> [Finding] {
    homes.flatMap { home in
        let used = files.filter { $0.path == home.path }.flatMap(usedBans).map(\.ban.call)
        return home.calls.filter { !used.contains($0) }.map { call in
            Finding(home.path, 1, "does not use `\(call)`: take the allowance out of `Home.all`")
        }
    }
}

/// Every banned call in a file, allowed or not.
private func usedBans(_ path: String, _ text: SwiftText) -> [(ban: Ban, line: Int)] {
    let isCore = synchronousCore.contains { path.hasPrefix($0) }
    var bans: [Ban] = []
    if path.hasPrefix("Sources/") { bans += Ban.everywhere }
    if path.hasPrefix("Tests/") { bans += Ban.inTests }
    if isCore { bans += Ban.inCore }
    return uses(of: bans, in: text.code, of: text) + uses(of: isCore ? Ban.inCoreSQL : [], in: text.strings, of: text)
}

private func uses(of bans: [Ban], in part: [UInt8], of text: SwiftText) -> [(ban: Ban, line: Int)] {
    bans.flatMap { ban in
        offsets(of: ban.call, in: part).filter { !isHarmless(ban, at: $0, in: part) }.map { (ban, text.line(at: $0)) }
    }
}

/// Whether the use is a declaration, somebody's method of that name, or has the saving argument.
private func isHarmless(_ ban: Ban, at offset: Int, in part: [UInt8]) -> Bool {
    let before = part[..<offset]
    if ban.call == "print(" { return before.last == UInt8(ascii: ".") || before.suffix(5).elementsEqual("func ".utf8) }
    guard let saving = ban.unlessGiven else { return false }
    return !offsets(of: saving, in: Array(arguments(from: offset, in: part))).isEmpty
}

/// The bytes from a call to the parenthesis that closes it.
private func arguments(from offset: Int, in part: [UInt8]) -> ArraySlice<UInt8> {
    var depth = 0
    for end in offset..<part.count {
        if part[end] == .openParenthesis { depth += 1 }
        if part[end] == .closeParenthesis { depth -= 1 }
        if part[end] == .closeParenthesis, depth == 0 { return part[offset...end] }
    }
    return part[offset...]
}
