package import GRDB
package import TidemarkCore
package import TidemarkEngine

/// A request without its change sets.
package struct RequestEnvelope {
    /// The change sets, JSON.
    package let changeSets: String
    private let revision: Int64
    private let device: String?
    private let epoch: String?
    private let schema: String?
    private let takesDelta: Bool
    private let echo: SyncRequest.Echo
    private let takesPresent: Bool
    private let exchange: RequestExchange
    private let numbers: (limit: Int64?, overruled: Int64?, related: Int64?)
    private let fingerprint: Fingerprint?

    /// Reads a body, or its outline if the staging has split it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is not JSON, or a member is unknown or
    ///   invalid.
    package init(_ body: [UInt8], outline: String? = nil, limits: Limits, in db: Database) throws {
        let members = try RequestMembers(body, outline: outline, in: db)
        guard members.type("wait") == nil else { throw TidemarkError.noLongPolling(.malformedRequest) }
        device = try members.text("device")
        epoch = try members.text("epoch")
        schema = try members.text("schema")
        let fingerprint = try members.text("fingerprint")
        let latest = "the latest revision that you have, 0 at first"
        guard let revision = try members.number("maxRevision", from: 0, latest) else {
            throw RequestMembers.error("maxRevision is missing.", latest)
        }
        guard let sets = members.array("changeSets") else {
            throw RequestMembers.error("changeSets is not an array.", "an array of change sets, possibly empty")
        }
        self.revision = revision
        changeSets = sets
        takesDelta = try members.truth("delta") ?? false
        echo = try Self.echo(members)
        takesPresent = try Self.takesPresent(members, echo)
        numbers = (
            try members.number("limit", from: 1, "the most revisions that you want"),
            try members.number("overruled", from: 0, "the last note that you took in"),
            try members.number("related", from: 0, "the most related records that you want")
        )
        exchange = try RequestExchange(members, limits: limits, in: db)
        self.fingerprint = try Self.fingerprint(fingerprint)
    }

    /// Makes the request with its change sets.
    package func request(bringing sets: [SyncRequest.Envelope]) throws -> SyncRequest {
        try exchange.refuse(beside: sets)
        return SyncRequest(
            maxRevision: revision,
            device: device,
            epoch: epoch,
            schema: schema,
            limit: numbers.limit.map { Int($0) },
            overruled: numbers.overruled ?? 0,
            fingerprint: fingerprint,
            isSettled: exchange.isSettled,
            takesDelta: takesDelta,
            echo: echo,
            takesPresent: takesPresent,
            related: numbers.related.map { Int($0) },
            lap: exchange.lap,
            lend: exchange.lend,
            question: exchange.question,
            changeSets: sets
        )
    }

    /// Combines the members `echo` and `answer`.
    private static func echo(_ members: RequestMembers) throws -> SyncRequest.Echo {
        let echo = try choice("echo", choices: ["all": .all, "ids": .ids], members: members)
        let answer = try choice("answer", choices: ["all": .all, "verdicts": .verdicts], members: members)
        return answer == .verdicts ? .verdicts : echo
    }

    /// Reads the member `base`: a device, which has rows, states what it has seen of each record.
    private static func takesPresent(_ members: RequestMembers, _ echo: SyncRequest.Echo) throws -> Bool {
        guard members.type("base") != nil else { return false }
        guard try members.text("base") == "present", echo == .verdicts else {
            throw RequestMembers.error(
                "base is not \"present\", or stands without the answer that it belongs to.",
                #""present" beside "answer": "verdicts", or left out"#
            )
        }
        return true
    }

    private static func choice(
        _ name: String,
        choices: KeyValuePairs<String, SyncRequest.Echo>,
        members: RequestMembers
    ) throws -> SyncRequest.Echo {
        guard members.type(name) != nil else { return .all }
        guard members.type(name) == "text", let text = try members.text(name),
            let choice = choices.first(where: { $0.key == text })
        else {
            let names = choices.map { "\"\($0.key)\"" }.joined(separator: " nor ")
            throw RequestMembers.error("\(name) is neither \(names).", "one of these, or left out")
        }
        return choice.value
    }

    private static func fingerprint(_ hex: String?) throws -> Fingerprint? {
        guard let hex else { return nil }
        guard let fingerprint = Fingerprint(hex: hex) else {
            throw RequestMembers.error(
                "fingerprint is not a fingerprint.",
                "32 hexadecimal digits, and may be left out"
            )
        }
        return fingerprint
    }
}
