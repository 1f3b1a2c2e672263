import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkIdentity
import TidemarkTerminal

/// `tidemark access`: questions about rights.
struct AccessCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "access", abstract: "Explain who may do something at a server, and why.",
        subcommands: [Explain.self, AccessCheck.self])

    struct Explain: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Explain whether a user can sync a zone, with every fact that decides it.",
            discussion: """
                A server that runs with an access file decides by it, too: name it.

                  tidemark access explain anna main --data ./data
                  tidemark access explain anna news --access access.json --data ./data
                """)
        @Argument(help: "The user's name.") var user: String
        @Argument(help: "The zone.") var zone: String
        @Option(help: ArgumentHelp("The access file of the server.", valueName: "access.json")) var access: String?
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let answer = try await place.open { try await explain($0) }
                if place.json { return try Terminal.json(answer) }
                Terminal.line(answer.answer)
                Terminal.table(answer.facts.map { [$0.name, $0.value] })
                if let advice = answer.whatToDo { Terminal.line("what to do: \(advice)") }
            }
        }

        private func explain(_ database: any AccessDatabase) async throws -> ExplanationText {
            let configuration = try access.map { try AccessConfiguration(path: $0) }
            let policy = AccessPolicy(
                hasOwnUsers: configuration?.hasOwnUsers ?? true, zones: configuration?.zones ?? [:])
            let gate = MemberGate(database, policy: policy, now: SystemClock.milliseconds)
            let decision = try await gate.decision(about: user, in: zone)
            let zones = try await place.location.zones()
            // A server makes the zones of its access file when it starts.
            let hasZone = zones.isEmpty || zones.contains(zone) || policy.zones[zone] != nil
            let now = SystemClock.milliseconds()
            let hasFile = access != nil
            return try await database.read { [user, zone, location = place.location] statements in
                let explanation = try AccessExplanation(
                    of: user, in: zone, decision: decision, policy: policy, hasZone: hasZone, from: statements, now: now
                )
                return ExplanationText(explanation, at: location, now: now, hasFile: hasFile)
            }
        }
    }
}

private struct ExplanationText: Encodable, Sendable {
    struct Fact: Encodable, Sendable {
        let name: String
        let value: String
    }

    let user: String
    let zone: String
    let outcome: String
    let answer: String
    let facts: [Fact]
    let whatToDo: String?

    init(_ explanation: AccessExplanation, at location: AccessLocation, now: Int64, hasFile: Bool) {
        user = explanation.user
        zone = explanation.zone
        outcome = explanation.outcome.rawValue
        answer = Self.answer(explanation)
        facts = Self.facts(explanation, now: now, hasFile: hasFile)
        whatToDo = Self.advice(explanation).map { "\($0) \(location.arguments)" }
    }

    private static func answer(_ explanation: AccessExplanation) -> String {
        let user = explanation.user
        let zone = explanation.zone
        return switch explanation.outcome {
        case .mayWrite: "\(user) can sync zone \(zone)."
        case .mayRead: "\(user) can read zone \(zone); the server refuses changes of a reader."
        case .hasNoToken: "\(user) cannot sync zone \(zone): no device of \(user) has a token that is good now."
        case .isFormerMember: "\(user) cannot sync zone \(zone): \(user) is no longer a member."
        case .isNoMember: "\(user) cannot sync zone \(zone): \(user) never was a member."
        case .zoneIsMissing: "\(user) cannot sync zone \(zone): the server has no such zone."
        case .zoneIsDeleted: "\(user) cannot sync zone \(zone): an owner has deleted it."
        case .isDisabled: "\(user) cannot sync: the user is disabled."
        case .isUnknown: "\(user) cannot sync: the server knows no such user."
        }
    }

    private static func facts(_ explanation: AccessExplanation, now: Int64, hasFile: Bool) -> [Fact] {
        let at = { (change: AccessExplanation.Change?) in
            change.map { "since \(AccessTexts.time($0.time)), by \(AccessTexts.author($0.author))" }
        }
        let role =
            switch explanation.standing {
            case .member(let role): role.rawValue
            case .former: "none"
            case .stranger: "never a member"
            }
        let tokens = explanation.tokens.map { token in
            let device = token.device.map { ", device \($0)" } ?? ""
            return Fact(
                name: "token \(token.id)",
                value:
                    "\(token.kind.name), \(token.condition(at: now)), until \(AccessTexts.end(token.expires))\(device)")
        }
        return [
            Fact(name: "user", value: at(explanation.added) ?? "unknown"),
            Fact(name: "disabled", value: at(explanation.disabled) ?? "no"),
            Fact(name: "role", value: [role, at(explanation.roleChange)].compactMap { $0 }.joined(separator: ", ")),
            Fact(
                name: "everybody",
                value: explanation.roleOfEverybody.map { "\($0.withArticle) by the access file" }
                    ?? (hasFile ? "no role" : "no role known; if the server has an access file, name it by --access")),
        ] + (tokens.isEmpty ? [Fact(name: "tokens", value: "none")] : tokens)
    }

    private static func advice(_ explanation: AccessExplanation) -> String? {
        let user = explanation.user
        return switch explanation.outcome {
        case .mayWrite: nil
        case .mayRead: "tidemark user role \(user) writer --zone \(explanation.zone)"
        case .hasNoToken: "tidemark user sign-in \(user)"
        case .isFormerMember, .isNoMember: "tidemark user role \(user) writer --zone \(explanation.zone)"
        case .isDisabled: "tidemark user enable \(user)"
        case .zoneIsMissing: "tidemark zones list"
        case .zoneIsDeleted: "tidemark zones restore \(explanation.zone)"
        case .isUnknown: "tidemark user add \(user)"
        }
    }
}
